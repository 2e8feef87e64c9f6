//! The conversation with a model whose answers are written down beforehand, on real databases.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{LazyLock, Mutex};

use kitbag_model::Maker;
use kitbag_model::redaction::MARK;
use kitbag_testkit::on_both;

use super::ask::{Answer, LONGEST_ANSWER};
use super::catalogue::ComponentKind;
use super::*;
use crate::toolsets::{RawDraft, check_draft};

/// Answers in turn, and remembers what it was asked. A `None` is a model that never answers.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Option<Result<String, AnswerError>>>>,
    heard: Mutex<Vec<String>>,
}

impl Script {
    fn of(answers: &[&str]) -> Self {
        let answers = answers.iter().map(|text| Some(Ok((*text).to_owned()))).collect();
        Self { answers: Mutex::new(answers), heard: Mutex::default() }
    }

    fn failing(error: Option<AnswerError>) -> Self {
        Self { answers: Mutex::new(VecDeque::from([error.map(Err)])), heard: Mutex::default() }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

impl Answers for Script {
    fn answer<'a>(&'a self, _: &'a OrgId, _: &'a BuilderLlm, system: &'a str, prompt: &'a str) -> Answer<'a> {
        self.heard.lock().unwrap().push(format!("{system}\n{prompt}"));
        let next = self.answers.lock().unwrap().pop_front().expect("nobody asks more often than is written down");
        Box::pin(async move {
            match next {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

fn llm() -> BuilderLlm {
    BuilderLlm { provider: Maker::Anthropic, model: "a-model".to_owned() }
}

fn builder<'a>(store: &'a Store, answers: &'a Script, org: &'a OrgId) -> Builder<'a> {
    // As many as it wants, for whichever organisation it is; the one test that has fewer says so.
    static PLACES: LazyLock<Bounded> = LazyLock::new(|| Bounded::new(1 << 20, "questions", "wait"));
    Builder { store, answers, org, places: &PLACES, by: Author { user: None, who: "token x".to_owned() } }
}

/// Not a secret, but it looks like one.
fn token() -> String {
    format!("ghp_{}", "aB3dE5fG7hJ9".repeat(3))
}

fn skill(id: &str, body: &str) -> Value {
    let content = format!("---\nname: {id}\ndescription: What it does, and when to use it.\n---\n\n{body}\n");
    json!({ "id": id, "name": "A skill", "files": [{ "path": "SKILL.md", "content": content }] })
}

const SAID: &str = r#"{"message":"Good.","suggestedComponentKeys":["mcp.github"]}"#;

/// Everything that the database has of a conversation, as one text.
async fn kept(store: &Store, org: &OrgId, id: BuilderSessionId) -> String {
    let mut tx = store.read(org).await.unwrap();
    let session = tx.builder_session(id).await.unwrap();
    let turns = tx.builder_turns(id, MOST_TURNS).await.unwrap();
    let lines = tx.audit_trail(50).await.unwrap();
    format!("{session:?} {turns:?} {lines:?}")
}

on_both! {
    async fn a_conversation_comes_to_a_draft(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let last = json!({ "name": "Triage", "description": "For issues.", "agentSkills": [skill("github-triage", "Do it.")] });
        let script = Script::of(&[
            SAID,
            r#"{"message":"Slack, too.","suggestedComponentKeys":["mcp.slack"]}"#,
            &last.to_string(),
        ]);
        let builder = builder(&store, &script, &org);
        let begun = builder.start(llm(), Some("I want to triage GitHub issues.")).await.unwrap();
        assert_eq!((begun.message.as_str(), begun.selected.as_slice()), ("Good.", &["mcp.github".to_owned()][..]));
        assert!(begun.warnings.is_empty());
        let id = begun.id.to_string();
        let chosen = vec!["mcp.github".to_owned(), "skill.github-triage".to_owned()];
        let turned = builder.chat(&id, "And share summaries", Some(chosen)).await.unwrap();
        assert_eq!(turned.selected, ["mcp.github", "skill.github-triage", "mcp.slack"]);
        assert_eq!(turned.suggested, ["mcp.slack"]);
        let made = builder.finalize(&id, Wishes::default(), None).await.unwrap();
        assert_eq!(made.draft["name"], "Triage");
        assert_eq!(made.draft["visibility"], "private");
        let servers: Vec<_> = made.draft["mcpServers"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
        assert_eq!(servers, ["github", "slack"]);
        assert_eq!(made.draft["agentSkills"][0]["id"], "github-triage");
        assert_eq!(made.warnings, ["This toolset requires environment variables: GITHUB_TOKEN, SLACK_BOT_TOKEN"]);

        let (session, turns) = builder.read(&id, MOST_TURNS).await.unwrap();
        assert_eq!((session.status, session.final_draft), (BuilderStatus::Finalized, Some(made.draft)));
        assert_eq!(session.final_warnings, made.warnings, "who reads it again is told the same");
        assert_eq!(turns.len(), 4);
        for over in [
            builder.chat(&id, "more", None).await.unwrap_err(),
            builder.finalize(&id, Wishes::default(), None).await.unwrap_err(),
        ] {
            assert!(matches!(over, BuilderError::Over(BuilderStatus::Finalized)), "{over:?}");
        }
        let lines = store.read(&org).await.unwrap().audit_trail(10).await.unwrap();
        let actions: Vec<_> = lines.iter().map(|line| line.action.as_str()).take(3).collect();
        assert_eq!(actions, ["toolset_builder.finalized", "toolset_builder.asked", "toolset_builder.started"]);
        assert_eq!(script.heard().len(), 3, "each was asked once");
    }

    async fn secrets_reach_neither_the_model_nor_the_database(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let token = token();
        let echo = format!(r#"{{"message":"Your token is {token}.","suggestedComponentKeys":[]}}"#);
        let wrote = json!({
            "name": "It", "description": format!("With {token}."), "agentSkills": [skill("a-skill", &format!("Use {token}."))],
        });
        let script = Script::of(&[&echo, &echo, &wrote.to_string()]);
        let builder = builder(&store, &script, &org);
        let begun = builder.start(llm(), Some(&format!("My token is {token}, password=hunter22"))).await.unwrap();
        assert_eq!(begun.warnings.len(), 1, "{:?}", begun.warnings);
        let told = &begun.warnings[0];
        assert!(told.starts_with("2 texts") && told.contains(") were taken out"), "{told}");
        assert_eq!(begun.asked, Some(format!("My token is ghp_{MARK}, password={MARK}")));
        let turned = builder.chat(&begun.id.to_string(), &format!("Again: {token}"), None).await.unwrap();
        assert!(turned.warnings[0].contains("(GitHub token) was taken out"), "{:?}", turned.warnings);
        assert_eq!(turned.asked, Some(format!("Again: ghp_{MARK}")));
        let wishes = Wishes { name: Some("Mine".to_owned()), ..Wishes::default() };
        let made = builder.finalize(&begun.id.to_string(), wishes, None).await.unwrap();
        assert_eq!(made.draft["name"], "Mine");
        assert!(made.warnings[0].contains("GitHub token"), "{:?}", made.warnings);
        for text in script.heard().into_iter().chain([
            begun.message, turned.message, made.draft.to_string(), kept(&store, &org, begun.id).await,
        ]) {
            assert!(!text.contains(&token[4..]) && !text.contains("hunter22"), "{text}");
            assert!(text.contains(MARK), "{text}");
        }
    }

    async fn a_bad_answer_is_mended_once(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let script = Script::of(&["I cannot do that.", SAID]);
        let begun = builder(&store, &script, &org).start(llm(), Some("git")).await.unwrap();
        let heard = script.heard();
        assert!(heard[1].contains("could not be used: it is no JSON"), "{}", heard[1]);
        assert!(!heard[0].contains("could not be used"));

        let bad = json!({ "name": "It", "agentSkills": [{ "id": "Not An Id", "name": "x", "files": [] }] }).to_string();
        let good = json!({ "name": "It", "agentSkills": [], "mcpServers": [{ "id": "evil", "command": "sh" }] }).to_string();
        let script = Script::of(&[&bad, &good]);
        let made = builder(&store, &script, &org).finalize(&begun.id.to_string(), Wishes::default(), None).await.unwrap();
        assert!(script.heard()[1].contains("agentSkills[0]"), "{}", script.heard()[1]);
        assert!(made.warnings[0].contains("mcpServers"), "{:?}", made.warnings);
        assert!(!made.draft.to_string().contains("evil"));
    }

    async fn a_secret_in_an_id_a_path_or_a_fields_name_is_a_bad_answer(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let token = token();
        let id = builder(&store, &Script::default(), &org).start(llm(), None).await.unwrap().id;
        let was = kept(&store, &org, id).await;
        let with = |change: &dyn Fn(&mut Value)| {
            let mut skill = skill("a-skill", "Do it.");
            change(&mut skill);
            json!({ "name": "It", "agentSkills": [skill] })
        };
        let another = json!({ "path": format!("docs/{token}.md"), "content": "x" });
        let model_key = format!("sk-ant-{}", "api03-".repeat(4));
        for bad in [
            with(&|skill| skill["files"].as_array_mut().unwrap().push(another.clone())),
            with(&|skill| skill["id"] = json!(model_key)),
            with(&|skill| skill["entry"] = json!(format!("{token}.md"))),
            with(&|skill| skill["files"][0]["note"] = json!([{ "x": token }])),
            with(&|skill| skill[&token] = json!(1)),
            json!({ "name": "It", token.as_str(): 1 }),
        ] {
            let bad = bad.to_string();
            assert!(bad.contains(&token) || bad.contains(&model_key));
            let script = Script::of(&[&bad, &bad]);
            let error = builder(&store, &script, &org).finalize(&id.to_string(), Wishes::default(), None).await.unwrap_err();
            let (code, message, details) = ApiError::from(error).into_told();
            assert_eq!(code, Code::ToolsetBuilderInvalidModelOutput);
            assert!(message.contains("looks like a secret"), "{message}");
            for text in [message, format!("{details:?}"), script.heard().concat(), kept(&store, &org, id).await] {
                assert!(!text.contains(&token[4..]) && !text.contains(&model_key), "{text}");
            }
        }
        assert_eq!(kept(&store, &org, id).await, was);
        // The model may mend it; and of what it made up no more is told than somebody wants to read.
        let bad = json!({ "name": "It", "agentSkills": [{ "id": model_key, "files": [] }] }).to_string();
        let good = json!({ "name": "It", "x".repeat(500): 1 }).to_string();
        let script = Script::of(&[&bad, &good]);
        let made = builder(&store, &script, &org).finalize(&id.to_string(), Wishes::default(), None).await.unwrap();
        assert!(made.warnings[0].len() < 200 && made.warnings[0].contains("xxx"), "{:?}", made.warnings);
    }

    async fn what_cannot_be_used_is_not_kept(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let long = format!(r#"{{"message":"{}"}}"#, "x".repeat(LONGEST_ANSWER));
        let before = store.read(&org).await.unwrap().audit_trail(50).await.unwrap().len();
        for bad in ["no", "[]", "{\"message\": 5}", long.as_str()] {
            let script = Script::of(&[bad, bad]);
            let error = builder(&store, &script, &org).start(llm(), Some("git")).await.unwrap_err();
            assert!(matches!(error, BuilderError::InvalidOutput(_)), "{error:?}");
            let error = ApiError::from(error);
            assert_eq!(error.code(), Code::ToolsetBuilderInvalidModelOutput);
        }
        assert_eq!(store.read(&org).await.unwrap().audit_trail(50).await.unwrap().len(), before, "nothing was kept");

        let script = Script::of(&[SAID]);
        let id = builder(&store, &script, &org).start(llm(), Some("git")).await.unwrap().id;
        let was = kept(&store, &org, id).await;
        let base64 = json!({ "name": "It", "agentSkills": [
            { "id": "a", "name": "a", "files": [{ "path": "SKILL.md", "content": "eA==", "encoding": "base64" }] }] });
        let escape = json!({ "name": "It", "agentSkills": [
            { "id": "a", "name": "a", "files": [{ "path": "../SKILL.md", "content": "x" }] }] });
        for bad in ["{}".to_owned(), json!({ "name": "" }).to_string(), base64.to_string(), escape.to_string()] {
            let script = Script::of(&[&bad, &bad]);
            let error = builder(&store, &script, &org).finalize(&id.to_string(), Wishes::default(), None).await.unwrap_err();
            assert!(matches!(error, BuilderError::InvalidOutput(_)), "{bad}: {error:?}");
        }
        for (error, code) in [
            (AnswerError::SecretRequired("no key".to_owned()), Code::LlmSecretRequired),
            (AnswerError::Unavailable("gone".to_owned()), Code::LlmUnavailable),
        ] {
            // Nobody is asked again who is not there.
            let script = Script::failing(Some(error));
            let error = builder(&store, &script, &org).chat(&id.to_string(), "more", None).await.unwrap_err();
            assert_eq!(ApiError::from(error).code(), code);
        }
        assert_eq!(kept(&store, &org, id).await, was);
    }

    async fn the_newest_turns_are_seen_and_there_is_an_end(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let answers: Vec<String> =
            (0..MOST_TURNS / 2).map(|n| format!(r#"{{"message":"answer {n}.","suggestedComponentKeys":["mcp.none"]}}"#)).collect();
        let script = Script::of(&answers.iter().map(String::as_str).collect::<Vec<_>>());
        let builder = builder(&store, &script, &org);
        let begun = builder.start(llm(), Some("question 0.")).await.unwrap();
        assert!(begun.warnings[0].contains("mcp.none") && begun.selected.is_empty(), "{begun:?}");
        for n in 1..MOST_TURNS / 2 {
            builder.chat(&begun.id.to_string(), &format!("question {n}."), None).await.unwrap();
        }
        let heard = script.heard();
        let last = heard.last().unwrap();
        for n in 43..49 {
            assert!(last.contains(&format!("question {n}.")) && last.contains(&format!("answer {n}.")), "{n} in {last}");
        }
        assert!(!last.contains("answer 42.") && !last.contains("question 0."), "{last}");
        assert!(last.contains("\"latestIntent\": \"question 48.\""), "{last}");
        let full = builder.chat(&begun.id.to_string(), "more", None).await.unwrap_err();
        assert!(matches!(full, BuilderError::Full), "{full:?}");
    }

    async fn keys_that_are_not_there_are_the_callers_to_mend(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let script = Script::default();
        let builder = builder(&store, &script, &org);
        let begun = builder.start(llm(), Some("  ")).await.unwrap();
        assert_eq!(begun.message, GREETING);
        assert_eq!(begun.components.len(), catalogue().all().len());
        let keys = || Some(vec!["mcp.github".to_owned(), "mcp.none".to_owned()]);
        for error in [
            builder.chat(&begun.id.to_string(), "x", keys()).await.unwrap_err(),
            builder.finalize(&begun.id.to_string(), Wishes::default(), keys()).await.unwrap_err(),
        ] {
            let (code, _, details) = ApiError::from(error).into_told();
            assert_eq!((code, details), (Code::BadRequest, Some(json!({ "invalid": ["mcp.none"] }))));
        }
        for wrong in [
            Wishes { name: Some(String::new()), ..Wishes::default() },
            Wishes { visibility: Some("public".to_owned()), ..Wishes::default() },
            Wishes { description: Some("x".repeat(2001)), ..Wishes::default() },
        ] {
            let error = builder.finalize(&begun.id.to_string(), wrong, None).await.unwrap_err();
            assert_eq!(ApiError::from(error).code(), Code::BadRequest);
        }
        assert!(script.heard().is_empty(), "no model was asked");
    }

    async fn somebody_elses_conversation_is_not_there(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let script = Script::default();
        let mine = builder(&store, &script, &org);
        let id = mine.start(llm(), None).await.unwrap().id.to_string();
        let user = Some(kitbag_model::UserId::generate());
        let by = |user, who: &str| Builder { by: Author { user, who: who.to_owned() }, ..builder(&store, &script, &org) };
        let local = OrgId::local();
        // Two tokens that are nobody's have nobody in common.
        for who in [by(user, "token x"), by(None, "token y"), builder(&store, &script, &local)] {
            for error in [
                who.read(&id, 1).await.unwrap_err(),
                who.chat(&id, "x", None).await.unwrap_err(),
                who.finalize(&id, Wishes::default(), None).await.unwrap_err(),
            ] {
                assert!(matches!(error, BuilderError::NotFound(_)), "{error:?}");
            }
        }
        mine.read(&id, 1).await.unwrap();
        // A person is the same with another token, and on the page.
        let theirs = by(user, "token z of somebody").start(llm(), None).await.unwrap().id.to_string();
        by(user, "somebody").read(&theirs, 1).await.unwrap();
        assert!(by(None, "token z of somebody").read(&theirs, 1).await.is_err());
    }
}

#[tokio::test]
async fn a_model_that_says_too_much_is_asked_once_more() {
    let org = OrgId::local();
    for (last, is_good) in [(Ok(SAID.to_owned()), true), (Err(AnswerError::TooLong), false)] {
        let answers = VecDeque::from([Some(Err(AnswerError::TooLong)), Some(last)]);
        let script = Script { answers: Mutex::new(answers), heard: Mutex::default() };
        let said = ask::ask(&script, &org, &llm(), ("", ""), answer::said).await;
        assert_eq!(said.is_ok(), is_good, "{said:?}");
        assert!(is_good || matches!(&said, Err(BuilderError::InvalidOutput(_))), "{said:?}");
        assert!(script.heard()[1].contains("more than 80000 characters"), "{:?}", script.heard());
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_answers_is_not_waited_for() {
    let script = Script::failing(None);
    let org = OrgId::local();
    let error = ask::ask(&script, &org, &llm(), ("", ""), answer::said).await.unwrap_err();
    assert!(
        matches!(&error, BuilderError::Answer(AnswerError::Unavailable(text)) if text.contains("25 seconds")),
        "{error:?}"
    );
}

#[test]
fn every_component_may_be_in_a_toolset_of_any_organisation() {
    let org: OrgId = "acme".parse().unwrap();
    let mut names = BTreeSet::new();
    assert_eq!(catalogue().version, 1);
    assert!(catalogue().all().len() >= 25);
    for component in catalogue().all() {
        assert!(names.insert(component.key.clone()), "{} is there twice", component.key);
        assert!(component.key.len() <= 80 && !component.description.is_empty());
        assert_eq!(redact(&serde_json::to_string(component).unwrap()).count(), 0);
        match component.kind {
            ComponentKind::Mcp => {
                let server = draft::entry(component).unwrap();
                let text = server.to_string();
                let used: BTreeSet<&str> =
                    text.split("${ENV:").skip(1).filter_map(|rest| rest.split('}').next()).collect();
                assert_eq!(used, component.required_env.iter().map(String::as_str).collect(), "{}", component.key);
                assert_eq!(component.key, format!("mcp.{}", server["id"].as_str().unwrap()));
                assert!(component.skill_template.is_none());
            }
            ComponentKind::Skill => {
                let hint = &component.skill_template.as_ref().unwrap().id_hint;
                assert!(hint.parse::<kitbag_model::SkillId>().is_ok() && component.mcp.is_none(), "{hint}");
            }
        }
    }
    let servers: Vec<Value> = catalogue().all().iter().filter_map(draft::entry).collect();
    let raw = RawDraft {
        id: None,
        name: Some("All".to_owned()),
        description: None,
        visibility: None,
        servers: Some(servers),
        skills: None,
        trust: None,
    };
    check_draft(&org, raw).unwrap();
}

#[test]
fn what_fits_best_is_first() {
    let keys = |text: &str| -> Vec<&str> { catalogue().suggested(text).iter().map(|one| one.key.as_str()).collect() };
    let order: Vec<&str> = catalogue().all().iter().map(|one| one.key.as_str()).take(20).collect();
    assert_eq!(keys(""), order);
    assert_eq!(keys("a ! ? é"), order, "words of one letter are none");
    assert_eq!(keys("Slack CHANNELS please")[..2], ["mcp.slack", "skill.slack-ops"]);
    let issues = keys("triage github issues");
    assert_eq!(issues[0], "skill.github-triage");
    assert_eq!(issues[1], "mcp.github");
    assert_eq!(issues.len(), 20);
    // Words that stand everywhere, or only inside of others, do not outweigh those that tell something.
    let team = keys("Triage new GitHub issues and tell the team in Slack.");
    assert_eq!(team[..4], ["skill.github-triage", "mcp.github", "mcp.slack", "skill.slack-ops"]);
    let web = keys("I want it to search the web, and then to have it in a notion page");
    assert!(web[..3].contains(&"mcp.notion") && web[..3].contains(&"mcp.brave-search"), "{web:?}");
    assert_eq!(keys("I would like to have it, and you?"), order, "nothing is told");
    assert_eq!(keys("postgres")[0], "mcp.postgres");
    assert_eq!(
        keys("sql")[..2],
        ["mcp.sqlite", "mcp.postgres"],
        "a name that begins with it is before one that has it inside"
    );
    // Of those that fit alike the key decides; the twenty-first word counts no more.
    let filler = "zz ".repeat(20);
    let mut by_key: Vec<&str> = catalogue().all().iter().map(|one| one.key.as_str()).collect();
    by_key.sort_unstable();
    assert_eq!(keys(&format!("{filler} slack")), by_key[..20]);
    assert_eq!(catalogue().ranked("slack").len(), catalogue().all().len());
}
