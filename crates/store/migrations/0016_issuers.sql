-- Why: people may sign in at issuers of OpenID Connect. Somebody who lists their ways in has to know which is which, and only the hash of
-- a name is kept. So beside it stands which issuer it is of, as the operator calls it, and the address that the issuer had for them.
ALTER TABLE identities ADD COLUMN issuer TEXT;
ALTER TABLE identities ADD COLUMN label TEXT;
