//! Installations of many organisations, where whatever is done for each of them takes long.

use kitbag_testkit::cluster::{SUPERUSER, try_run};
use rustix::process::Signal;

use crate::kit::{begin, command, new_chat, nodes, output, over, until, until_there};

#[tokio::test(flavor = "multi_thread")]
async fn who_clears_up_after_a_dead_node_stays_alive_itself() {
    let (installation, [mut first, second, third]) = nodes::<3>().await;
    let chat = new_chat(&first).await;
    let begun = begin(&first, &chat, "touch begun; sleep 600").await;
    until_there(&installation.folder(0).join("chats").join(&chat).join("workspace/begun")).await;
    // What is done for all of them takes three times as long as a node may be silent, on whatever machine: for each of them it is looked
    // whether the dead node ran a call.
    installation
        .database
        .change(
            "INSERT INTO organizations (id, created_at) SELECT 'o' || n, now() FROM generate_series(1, 300) n;
             CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NULL; END $$;
             CREATE TRIGGER slowly BEFORE UPDATE ON tool_calls FOR EACH STATEMENT EXECUTE FUNCTION slowly()",
        )
        .await;
    first.signal(Signal::KILL);
    first.wait();
    assert_eq!(over(&second, &begun).await["error"]["code"], "INTERRUPTED");
    for server in [&second, &third] {
        assert_eq!(output(command(server, &chat, "echo here").await), "here");
    }
    let mut superuser = installation.database.connect(SUPERUSER).await;
    until("all of it is done", async || {
        let dead = try_run(&mut superuser, "SELECT id FROM nodes WHERE dead").await.unwrap();
        (dead == 0).then_some(())
    })
    .await;
    for server in [&second, &third] {
        assert!(!server.log().contains("took this one for dead"), "{}", server.log());
    }
}
