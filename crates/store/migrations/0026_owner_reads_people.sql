-- Why: a backup reads everything while others write. The owner of the tables is bound by the policies as everybody is, so it reads organisation by
-- organisation; but nothing lists people. To let go of the policies takes locks that keep all servers waiting, so the owner alone, and only when it says
-- so, may read the three tables of people whole.

--@postgres CREATE POLICY kitbag_owner_select ON users FOR SELECT TO CURRENT_USER
--@postgres     USING ((SELECT current_setting('kitbag.owner', true)) = 'on');
--@postgres CREATE POLICY kitbag_owner_select ON user_sessions FOR SELECT TO CURRENT_USER
--@postgres     USING ((SELECT current_setting('kitbag.owner', true)) = 'on');
--@postgres CREATE POLICY kitbag_owner_select ON identities FOR SELECT TO CURRENT_USER
--@postgres     USING ((SELECT current_setting('kitbag.owner', true)) = 'on');
