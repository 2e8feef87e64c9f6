//! A node that was thought dead and comes back, and what is left under the names of nodes that nobody knows any more.

use rustix::process::Signal;

use crate::kit::{begin, command, new_chat, nodes, output, over, until, until_there};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_coming_back_is_not_ready() {
    let (installation, [first, second]) = nodes::<2>().await;
    // Whoever was declared dead cannot come back for now.
    installation
        .database
        .change(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not yet'; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON nodes FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    first.signal(Signal::STOP);
    until("it is taken for dead", async || second.log().contains("a node is dead").then_some(())).await;
    first.signal(Signal::CONT);
    until("it says that it is not there", async || {
        let ready = first.get("/readyz").await;
        let says_so = ready.body["message"].as_str().is_some_and(|message| message.contains("took this one for dead"));
        (ready.status == 503 && says_so).then_some(())
    })
    .await;
    assert_eq!(second.get("/readyz").await.status, 200);
    installation.database.change("DROP TRIGGER refuse ON nodes").await;
    until("it is ready", async || (first.get("/readyz").await.status == 200).then_some(())).await;
    let chat = new_chat(&first).await;
    assert_eq!(output(command(&first, &chat, "echo here").await), "here");
}

/// A node that does not know yet that it is dead records calls under its name, also when everything of that name has been ended. It may be
/// killed before it finds out.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_a_name_that_no_node_has_is_ended() {
    let (installation, [mut first, second]) = nodes::<2>().await;
    let chat = new_chat(&first).await;
    let begun = begin(&first, &chat, "touch begun; sleep 600").await;
    until_there(&installation.folder(0).join("chats").join(&chat).join("workspace/begun")).await;
    installation.database.change("UPDATE tool_calls SET node_id = 'nobody'").await;
    first.signal(Signal::KILL);
    first.wait();
    assert_eq!(over(&second, &begun).await["error"]["code"], "INTERRUPTED");
}
