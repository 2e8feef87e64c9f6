//! Every function of the store, on both databases.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_model::{
    BearerToken, Chat, ChatChange, ChatId, Content, ContentHash, Message, MessageId, NewChat, NewManifest, NewMessage,
    NewToken, OrgId, Parent, Role, Scope, Scopes, SessionCookie, Source, Timestamp, TokenId, ToolSelectors,
};
use kitbag_store::{AddMessageError, KeepError, Store, StoreError};
use kitbag_testkit::database::add_organization;
use kitbag_testkit::on_both;
use serde_json::json;

async fn new_chat(store: &Store, org: &OrgId, title: &str) -> Chat {
    let mut tx = store.write(org).await.unwrap();
    let chat = tx.create_chat(&NewChat { title: Some(title.parse().unwrap()), ..NewChat::default() }).await.unwrap();
    tx.commit().await.unwrap();
    chat
}

fn says(text: &str, parent: Parent) -> NewMessage {
    NewMessage { parent, role: Role::User, content: Content::try_from(json!(text)).unwrap() }
}

async fn add(store: &Store, org: &OrgId, chat: ChatId, new: NewMessage) -> Result<Message, AddMessageError> {
    let mut tx = store.write(org).await.unwrap();
    let message = tx.add_message(chat, &new).await?;
    tx.commit().await.unwrap();
    Ok(message)
}

async fn read_chat(store: &Store, org: &OrgId, id: ChatId) -> Option<Chat> {
    store.read(org).await.unwrap().chat(id).await.unwrap()
}

on_both! {
    async fn local_is_there_from_the_start(database: TestDatabase) {
        let store = database.open().await;
        let found = store.read(&OrgId::local()).await.unwrap().organization().await.unwrap().unwrap();
        assert_eq!((found.id, found.name.as_str()), (OrgId::local(), "Local"));
        assert_eq!(store.system().await.unwrap().organization_ids().await.unwrap(), [OrgId::local()]);
        store.ping().await.unwrap();
    }

    async fn organisations_are_made_once(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let mut tx = store.write(&acme).await.unwrap();
        assert!(matches!(tx.create_organization(&"Again".parse().unwrap()).await, Err(StoreError::Exists)));
        drop(tx);
        let ids = store.system().await.unwrap().organization_ids().await.unwrap();
        assert_eq!(ids, [acme, OrgId::local()]);
        let nobody: OrgId = "nobody".parse().unwrap();
        assert!(store.read(&nobody).await.unwrap().organization().await.unwrap().is_none());
    }

    async fn a_chat_is_made_read_changed_and_deleted(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let selectors = vec!["toolset:app".to_owned(), "-app:x".to_owned()];
        let new = NewChat {
            title: Some("Grüße".parse().unwrap()),
            tool_selectors: Some(ToolSelectors::try_from(selectors.as_slice()).unwrap()),
            of_run: false,
        };
        let mut tx = store.write(&org).await.unwrap();
        let made = tx.create_chat(&new).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(made.title.as_deref(), Some("Grüße"));
        assert_eq!(made.tool_selectors, Some(selectors.clone()));
        assert_eq!(read_chat(&store, &org, made.id).await, Some(made.clone()));

        let mut tx = store.write(&org).await.unwrap();
        let change = ChatChange { title: Some(None), tool_selectors: None };
        let changed = tx.update_chat(made.id, &change).await.unwrap().unwrap();
        assert_eq!((changed.title, changed.tool_selectors), (None, Some(selectors)));
        let change = ChatChange { title: Some(Some("New".parse().unwrap())), tool_selectors: Some(None) };
        let changed = tx.update_chat(made.id, &change).await.unwrap().unwrap();
        assert_eq!((changed.title.as_deref(), changed.tool_selectors), (Some("New"), None));
        assert_eq!(tx.update_chat(ChatId::generate(), &change).await.unwrap(), None);
        assert!(tx.delete_chat(made.id).await.unwrap());
        assert!(!tx.delete_chat(made.id).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(read_chat(&store, &org, made.id).await, None);
    }

    async fn what_is_not_committed_leaves_no_trace(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let mut tx = store.write(&org).await.unwrap();
        let chat = tx.create_chat(&NewChat::default()).await.unwrap();
        assert!(tx.chat(chat.id).await.unwrap().is_some(), "inside, it is there");
        drop(tx);
        assert_eq!(read_chat(&store, &org, chat.id).await, None);
    }

    async fn chats_come_in_pages_newest_first(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let mut made = Vec::new();
        for index in 0..5 {
            made.push(new_chat(&store, &org, &format!("chat {index}")).await.id);
        }
        made.reverse();
        let mut seen = Vec::new();
        let mut before = None;
        loop {
            let page = store.read(&org).await.unwrap().chats(before, 2).await.unwrap();
            assert!(page.items.len() <= 2);
            seen.extend(page.items.iter().map(|chat| chat.id));
            before = seen.last().copied();
            if !page.has_more { break; }
        }
        assert_eq!(seen, made);
    }

    async fn messages_make_a_tree(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let chat = new_chat(&store, &org, "tree").await.id;
        let root = add(&store, &org, chat, says("root", Parent::ActiveLeaf)).await.unwrap();
        let child = add(&store, &org, chat, says("child", Parent::ActiveLeaf)).await.unwrap();
        let branch = add(&store, &org, chat, says("branch", Parent::Message(root.id))).await.unwrap();
        let below = add(&store, &org, chat, says("below the branch", Parent::ActiveLeaf)).await.unwrap();
        let second = add(&store, &org, chat, says("a second top", Parent::Root)).await.unwrap();
        assert_eq!(
            [root.parent_id, child.parent_id, branch.parent_id, below.parent_id, second.parent_id],
            [None, Some(root.id), Some(root.id), Some(branch.id), None]
        );
        assert_eq!(read_chat(&store, &org, chat).await.unwrap().active_leaf_message_id, Some(second.id));
        let page = store.read(&org).await.unwrap().messages(chat, None, 100).await.unwrap();
        assert_eq!(page.items, [root, child.clone(), branch.clone(), below, second]);
        let page = store.read(&org).await.unwrap().messages(chat, Some(child.id), 1).await.unwrap();
        assert_eq!((page.items.as_slice(), page.has_more), ([branch].as_slice(), true));
    }

    async fn content_comes_back_as_it_was_given(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let chat = new_chat(&store, &org, "content").await.id;
        // The order of keys, a NUL, a lone large number and an unknown field all survive.
        let text = r#"[{"type":"x","z":1,"a":{"n":12345678901234567890,"nul":"\u0000"},"emoji":"👋"}]"#;
        let content = Content::try_from(serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap();
        let new = NewMessage { parent: Parent::ActiveLeaf, role: Role::Assistant, content };
        add(&store, &org, chat, new).await.unwrap();
        let page = store.read(&org).await.unwrap().messages(chat, None, 9).await.unwrap();
        assert_eq!(page.items[0].content.as_json().to_string(), text);
    }

    async fn a_message_needs_its_chat_and_a_parent_in_it(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let (one, two) = (new_chat(&store, &org, "one").await.id, new_chat(&store, &org, "two").await.id);
        let in_one = add(&store, &org, one, says("x", Parent::ActiveLeaf)).await.unwrap().id;
        let refused = add(&store, &org, two, says("x", Parent::Message(in_one))).await;
        assert!(matches!(refused, Err(AddMessageError::NoParent)), "{refused:?}");
        let refused = add(&store, &org, two, says("x", Parent::Message(MessageId::generate()))).await;
        assert!(matches!(refused, Err(AddMessageError::NoParent)), "{refused:?}");
        let refused = add(&store, &org, ChatId::generate(), says("x", Parent::ActiveLeaf)).await;
        assert!(matches!(refused, Err(AddMessageError::NoChat)), "{refused:?}");
        assert_eq!(read_chat(&store, &org, two).await.unwrap().active_leaf_message_id, None);
    }

    async fn writers_below_the_active_leaf_make_one_chain(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let chat = new_chat(&store, &org, "chain").await.id;
        let mut writers = tokio::task::JoinSet::new();
        for index in 0..20 {
            let (store, org) = (store.clone(), org.clone());
            writers.spawn(async move { add(&store, &org, chat, says(&index.to_string(), Parent::ActiveLeaf)).await.unwrap() });
        }
        let messages = writers.join_all().await;
        let mut parents: Vec<_> = messages.iter().map(|message| message.parent_id).collect();
        parents.sort();
        parents.dedup();
        assert_eq!(parents.len(), 20, "two messages have one parent");
    }

    async fn a_deleted_chat_takes_its_messages_along(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let chat = new_chat(&store, &org, "gone").await.id;
        for _ in 0..3 {
            add(&store, &org, chat, says("x", Parent::ActiveLeaf)).await.unwrap();
        }
        let mut tx = store.write(&org).await.unwrap();
        assert!(tx.delete_chat(chat).await.unwrap());
        assert!(tx.messages(chat, None, 9).await.unwrap().items.is_empty());
        tx.commit().await.unwrap();
    }

    async fn tokens_are_kept_hashed_and_revoked(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let bearer = BearerToken::generate(org.clone());
        let ends = Timestamp::now().plus_seconds(60);
        let scopes: Scopes = [Scope::Use].into_iter().collect();
        let new = NewToken { id: bearer.id, name: "agent".parse().unwrap(), hash: bearer.secret.hash(), scopes, expires_at: Some(ends), user: None };
        let mut tx = store.write(&org).await.unwrap();
        tx.create_token(&new).await.unwrap();
        tx.commit().await.unwrap();

        let mut tx = store.read(&org).await.unwrap();
        let token = tx.token(bearer.id).await.unwrap().unwrap();
        assert!(token.admits(&bearer.secret, Timestamp::now()));
        assert_eq!((token.scopes, token.expires_at), (scopes, Some(ends)));
        assert_eq!(tx.tokens(None, None, 9).await.unwrap().items.len(), 1);
        assert!(tx.tokens(None, Some(bearer.id), 9).await.unwrap().items.is_empty());
        assert!(tx.token(TokenId::generate()).await.unwrap().is_none());
        drop(tx);

        let mut tx = store.write(&org).await.unwrap();
        assert!(tx.revoke_token(bearer.id).await.unwrap());
        assert!(!tx.revoke_token(bearer.id).await.unwrap());
        assert!(tx.token(bearer.id).await.unwrap().is_none());
    }

    async fn a_state_follows_the_active_one_or_is_refused(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let chat = new_chat(&store, &org, "workspace").await.id;
        let question = add(&store, &org, chat, says("question", Parent::ActiveLeaf)).await.unwrap().id;
        let state = |parent, content: &str| NewManifest {
            parent,
            root: ContentHash::of(content.as_bytes()),
            source: Source::Edit,
            source_ref: Some("x".to_owned()),
        };
        let mut tx = store.write(&org).await.unwrap();
        let first = tx.keep_manifest(chat, &state(None, "one")).await.unwrap();
        assert!(matches!(tx.keep_manifest(chat, &state(None, "late")).await, Err(KeepError::Conflict)));
        let nobody = ChatId::generate();
        assert!(matches!(tx.keep_manifest(nobody, &state(None, "x")).await, Err(KeepError::NoChat)));
        tx.commit().await.unwrap();
        // A message without a state of its own has that of the one above it.
        let answer = add(&store, &org, chat, says("answer", Parent::ActiveLeaf)).await.unwrap().id;
        let mut tx = store.write(&org).await.unwrap();
        assert_eq!(tx.manifest_of_message(chat, answer).await.unwrap(), Some(first.id));
        let second = tx.keep_manifest(chat, &state(Some(first.id), "two")).await.unwrap();
        assert_eq!(tx.manifest_of_message(chat, answer).await.unwrap(), Some(second.id));
        assert_eq!(tx.manifest_of_message(chat, question).await.unwrap(), Some(first.id));
        assert_eq!(tx.manifest_of_message(chat, MessageId::generate()).await.unwrap(), None);
        tx.set_active_leaf(chat, question).await.unwrap();
        let found = tx.chat(chat).await.unwrap().unwrap();
        assert_eq!((found.active_leaf_message_id, found.active_manifest_id), (Some(question), Some(first.id)));
        assert_eq!(tx.manifest(chat, second.id).await.unwrap(), Some(second.clone()));
        assert_eq!(tx.manifests(chat, None, 9).await.unwrap().items, [second.clone(), first.clone()]);
        assert_eq!(tx.manifests(chat, Some(second.id), 9).await.unwrap().items, std::slice::from_ref(&first));
        let mut roots = tx.manifest_roots(chat).await.unwrap();
        roots.sort();
        let mut wanted = [first.root, second.root];
        wanted.sort();
        assert_eq!(roots, wanted);
        tx.commit().await.unwrap();
    }

    async fn the_first_message_has_what_was_there_before_it(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        for parent in [Parent::ActiveLeaf, Parent::Root] {
            let chat = new_chat(&store, &org, "workspace").await.id;
            let mut tx = store.write(&org).await.unwrap();
            let root = ContentHash::of(b"before");
            let new = NewManifest { parent: None, root, source: Source::UserUpload, source_ref: None };
            let before = tx.keep_manifest(chat, &new).await.unwrap().id;
            tx.commit().await.unwrap();
            let first = add(&store, &org, chat, says("first", parent)).await.unwrap();
            assert_eq!(first.manifest_id, Some(before));
            add(&store, &org, chat, says("second", Parent::Message(first.id))).await.unwrap();
            assert_eq!(read_chat(&store, &org, chat).await.unwrap().active_manifest_id, Some(before));
            let other = add(&store, &org, chat, says("another top", Parent::Root)).await.unwrap();
            assert_eq!(other.manifest_id, None, "a second top begins with nothing");
        }
    }

    async fn nodes_are_kept_once_and_forgotten(database: TestDatabase) {
        let store = database.open().await;
        let org = OrgId::local();
        let (chat, other) = (new_chat(&store, &org, "one").await.id, new_chat(&store, &org, "two").await.id);
        let node = |text: &str| (ContentHash::of(text.as_bytes()), text.as_bytes().to_vec());
        let mut tx = store.write(&org).await.unwrap();
        tx.add_nodes(chat, &[node("a"), node("b"), node("a")]).await.unwrap();
        tx.add_nodes(chat, &[node("a")]).await.unwrap();
        assert_eq!(tx.node(chat, &node("a").0).await.unwrap(), Some(b"a".to_vec()));
        assert_eq!(tx.node(other, &node("a").0).await.unwrap(), None, "another chat's are not ours");
        let mut wanted = vec![node("a"), node("b")];
        wanted.sort();
        assert_eq!(tx.nodes(chat).await.unwrap(), wanted);
        tx.sweep_nodes(chat, &[node("a").0]).await.unwrap();
        assert_eq!(tx.nodes(chat).await.unwrap(), [node("b")]);
        assert!(tx.delete_chat(chat).await.unwrap());
        assert!(tx.nodes(chat).await.unwrap().is_empty());
    }

    async fn a_session_ends_with_its_token(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let bearer = BearerToken::generate(org.clone());
        let (cookie, stale) = (SessionCookie::generate(org.clone()), SessionCookie::generate(org.clone()));
        let now = Timestamp::now();
        let mut tx = store.write(&org).await.unwrap();
        let new = NewToken { id: bearer.id, name: "t".parse().unwrap(), hash: bearer.secret.hash(), scopes: Scopes::ALL, expires_at: None, user: None };
        tx.create_token(&new).await.unwrap();
        tx.create_session(&stale, bearer.id, now).await.unwrap();
        tx.create_session(&cookie, bearer.id, now.plus_seconds(60)).await.unwrap();
        let session = tx.session(cookie.id).await.unwrap().unwrap();
        assert!(session.admits(&cookie.secret, now) && !session.admits(&stale.secret, now));
        assert_eq!((session.token_id, session.scopes), (bearer.id, Scopes::ALL));
        assert!(tx.session(stale.id).await.unwrap().is_none(), "an ended session is forgotten by the next");
        tx.commit().await.unwrap();
        assert!(store.read(&OrgId::local()).await.unwrap().session(cookie.id).await.unwrap().is_none());
        let mut tx = store.write(&org).await.unwrap();
        tx.revoke_token(bearer.id).await.unwrap();
        assert!(tx.session(cookie.id).await.unwrap().is_none());
    }

    async fn one_organisation_does_not_see_another(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let other = add_organization(&store, "other").await;
        let chat = new_chat(&store, &acme, "secret").await.id;
        let message = add(&store, &acme, chat, says("x", Parent::ActiveLeaf)).await.unwrap().id;
        let bearer = BearerToken::generate(acme.clone());
        let mut tx = store.write(&acme).await.unwrap();
        tx.create_token(&NewToken { id: bearer.id, name: "t".parse().unwrap(), hash: bearer.secret.hash(), scopes: Scopes::ALL, expires_at: None, user: None }).await.unwrap();
        tx.commit().await.unwrap();

        let mut tx = store.write(&other).await.unwrap();
        assert_eq!(tx.chat(chat).await.unwrap(), None);
        assert!(tx.chats(None, 9).await.unwrap().items.is_empty());
        assert_eq!(tx.update_chat(chat, &ChatChange { title: Some(None), tool_selectors: None }).await.unwrap(), None);
        assert!(!tx.delete_chat(chat).await.unwrap());
        assert!(tx.messages(chat, None, 9).await.unwrap().items.is_empty());
        assert!(matches!(tx.add_message(chat, &says("x", Parent::Message(message))).await, Err(AddMessageError::NoChat)));
        assert!(tx.token(bearer.id).await.unwrap().is_none());
        assert!(!tx.revoke_token(bearer.id).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(read_chat(&store, &acme, chat).await.unwrap().title.as_deref(), Some("secret"));
    }
}
