//! The table of secrets, each in several places of a text.

use super::*;

/// The beginning of a text, the secret's own beginning, the rest of the secret, and its kind.
fn secrets() -> Vec<(&'static str, &'static str, String, Kind)> {
    let letters = |many: usize| LETTERS[..many].to_owned();
    let jwt = format!("hbGciOiJub25lIn0.eyJzdWIiOiJub2JvZHkifQ.{}", letters(20));
    let mut all = vec![
        ("Authorization: ", "Bearer ", "abcdefghijkl".to_owned(), Kind::Authorization),
        ("Authorization: ", "Bearer ", letters(30), Kind::Authorization),
        ("authorization: ", "bearer ", letters(30), Kind::Authorization),
        ("AUTHORIZATION: ", "BEARER ", "not.a_real-token.1".to_owned(), Kind::Authorization),
        ("Authorization: ", "Basic ", "bm9ib2R5Om5vdGhpbmc=".to_owned(), Kind::Authorization),
        ("with ", "basic ", "dXNlcjpwYXNz".to_owned(), Kind::Authorization),
        ("", "sk-ant-", "api03-not-a-real-key".to_owned(), Kind::Model),
        ("my key is ", "sk-", letters(10), Kind::Model),
        ("my key is ", "sk-", letters(42), Kind::Model),
        ("(", "sk-proj-", format!("{}_-{}", letters(20), letters(9)), Kind::Model),
        ("x=", "sk-or-", format!("v1-{HEX}"), Kind::Model),
        ("", "sk-svcacct-", letters(24), Kind::Model),
        ("", "gsk_", letters(30), Kind::Model),
        ("", "hf_", letters(34), Kind::Model),
        ("ghp: ", "ghp_", letters(36), Kind::GitHub),
        ("", "gho_", letters(36), Kind::GitHub),
        ("", "ghu_", letters(36), Kind::GitHub),
        ("", "ghs_", letters(36), Kind::GitHub),
        ("", "ghr_", letters(36), Kind::GitHub),
        ("", "github_pat_", format!("{}_{}", letters(22), letters(40)), Kind::GitHub),
        ("", "glpat-", letters(20), Kind::GitLab),
        ("id ", "AKIA", "NOTAREALKEY12345".to_owned(), Kind::Aws),
        ("id ", "ASIA", "NOTAREALKEY12345".to_owned(), Kind::Aws),
        ("the aws secret key is ", "", format!("{}/+", letters(38)), Kind::Aws),
        ("", "eyJ", jwt, Kind::Jwt),
        ("", "xoxb-", format!("1234567890-{}", letters(12)), Kind::Slack),
        ("", "xoxp-", format!("1234567890-{}", letters(12)), Kind::Slack),
        ("", "xoxe-", format!("1-{}", letters(12)), Kind::Slack),
        ("", "xapp-", format!("1-A1-2-{}", letters(12)), Kind::Slack),
        ("", "AIza", letters(35), Kind::Google),
        ("", "ya29.", letters(30), Kind::Google),
        ("", "GOCSPX-", letters(24), Kind::Google),
        ("", "npm_", letters(36), Kind::Registry),
        ("", "pypi-AgE", letters(40), Kind::Registry),
        ("", "dckr_pat_", letters(24), Kind::Registry),
        ("", "sk_live_", letters(24), Kind::Stripe),
        ("", "rk_live_", letters(24), Kind::Stripe),
        ("", "sk_test_", letters(24), Kind::Stripe),
        ("", "whsec_", letters(32), Kind::Stripe),
        ("", "SG.", format!("{}.{}", letters(22), letters(42)), Kind::Other),
        ("sid ", "AC", HEX.to_owned(), Kind::Twilio),
        ("key ", "SK", HEX.to_owned(), Kind::Twilio),
        ("", "dop_v1_", format!("{HEX}{HEX}"), Kind::Other),
        ("", "lin_api_", letters(40), Kind::Other),
        ("", "ntn_", letters(42), Kind::Other),
        ("", "secret_", letters(42), Kind::Other),
        ("", "shpat_", HEX.to_owned(), Kind::Other),
        ("", "kitbag_", format!("acme.01890a5d-ac96-774b-bcce-b302099a8057.{HEX}{HEX}"), Kind::Other),
        ("", "sk-None-", letters(24), Kind::Model),
        ("", "lsv2_", format!("pt_{HEX}_0123456789"), Kind::Model),
        ("", "fw_", letters(24), Kind::Model),
        ("", "glcbt-", format!("64_{}", letters(20)), Kind::GitLab),
        ("", "glft-", letters(20), Kind::GitLab),
        ("", "glptt-", HEX.to_owned(), Kind::GitLab),
        ("", "gloas-", format!("{HEX}{HEX}"), Kind::GitLab),
        ("", "glsoat-", letters(20), Kind::GitLab),
        ("", "ABSK", format!("{LETTERS}{}=", letters(20)), Kind::Aws),
        ("https://", "hooks.slack.com/services/", format!("T00000000/B00000000/{}", letters(24)), Kind::Slack),
        ("", "1//0", format!("g{LETTERS}"), Kind::Google),
        ("", "rubygems_", format!("{HEX}{}", &HEX[..16]), Kind::Registry),
        ("with ", "key-", HEX.to_owned(), Kind::Other),
        ("", "hvs.", letters(40), Kind::Other),
        ("", "hvb.", letters(40), Kind::Other),
        ("", "dp.pt.", letters(40), Kind::Other),
        ("", "pul-", format!("{HEX}01234567"), Kind::Other),
        ("", "NRAK-", "NOTAREALKEYNOTAREALKEY12345".to_owned(), Kind::Other),
        ("", "sntrys_", format!("{LETTERS}={LETTERS}"), Kind::Other),
        ("", "sntryu_", format!("{HEX}{HEX}"), Kind::Other),
        ("", "glc_", letters(40), Kind::Other),
        ("", "HRKU-", format!("AA{LETTERS}"), Kind::Other),
        ("", "sq0atp-", letters(22), Kind::Other),
        ("", "pscale_tkn_", letters(40), Kind::Other),
        ("", "rnd_", letters(32), Kind::Other),
        ("", "shpca_", HEX.to_owned(), Kind::Other),
        ("", "AGE-SECRET-KEY-1", "NOTAREALKEY2".repeat(5), Kind::Other),
        ("abcdefghijklmn", ".atlasv1.", format!("{LETTERS}{}", letters(20)), Kind::Other),
        ("", "pat", format!("{}.{HEX}{HEX}", letters(14)), Kind::Other),
        ("the secret abc8", "Q~", letters(34), Kind::Other),
        ("123456789", ":", format!("AAF{}", letters(32)), Kind::Other),
        ("https://api.telegram.org/bot", "123456789:", format!("AAF{}", letters(32)), Kind::Other),
        ("https://", "discord.com/api/webhooks/", format!("123456789012345678/{LETTERS}{LETTERS}"), Kind::Other),
        ("bot ", "", format!("M{}.{}.{}", letters(23), letters(6), letters(27)), Kind::Other),
        ("postgres://", "app:", "hunter2pw".to_owned(), Kind::Password),
        ("https://", "somebody:", "password".to_owned(), Kind::Password),
        ("redis://", ":", "p4ss:w0rd".to_owned(), Kind::Password),
        ("postgres://", "app:", "hun/ter2".to_owned(), Kind::Password),
        ("postgres://", "app:", "hun#ter2".to_owned(), Kind::Password),
        ("postgres://", "app:", "hun?ter2".to_owned(), Kind::Password),
        ("postgres://", "app:", "$hunter2x".to_owned(), Kind::Password),
        ("postgres://", "app:", "[hunter2]".to_owned(), Kind::Password),
        ("mysql://", "app:", "*hunter2".to_owned(), Kind::Password),
        ("https://", "", letters(36), Kind::Password),
        ("https://", "", HEX.to_owned(), Kind::Password),
        ("https://", "", format!("{}:x-oauth-basic", letters(36)), Kind::Password),
        ("Authorization: ", "Token ", letters(40), Kind::Authorization),
        ("Authorization: ", "ApiKey ", letters(40), Kind::Authorization),
        ("X-Authorization: ", "", letters(40), Kind::Authorization),
        ("", "Bearer: ", letters(40), Kind::Authorization),
        ("", "Bearer\n", letters(40), Kind::Authorization),
        ("", "Bearer\u{a0}", letters(40), Kind::Authorization),
        ("Bearer \"", "", letters(40), Kind::Authorization),
    ];
    for named in [
        "my password = ",
        "password: ",
        "PGPASSWORD=",
        "my db_pass=",
        "api_key: ",
        "\"apiKey\": \"",
        "client_secret='",
        "AWS_SECRET_ACCESS_KEY=",
        "AccountKey=",
        "auth_token => ",
        "https://api.example/?access_token=",
        "- **Password**: ",
        "ENCRYPTION_KEY=",
        "signing_key=",
        "_authToken=",
        "API key: ",
        "{\\\"api_key\\\":\\\"",
        "settings[\"password\"] = \"",
        "tool --api-key ",
        "tool --password ",
        "tool --password=",
        "[\"--password\", \"",
        "name: API_KEY\n  value: ",
        "<add key=\"ApiKey\" value=\"",
        "my password is ",
        "https://api.example/?token%3D",
    ] {
        all.push((named, "", "hunter2-and-more".to_owned(), Kind::Named));
    }
    for (named, value) in [
        ("the API key is ", letters(32)),
        ("KEY=", letters(32)),
        ("https://maps.example/?key=", letters(32)),
        ("https://x.example/c?sv=1&sig=", "abcDEF123%2Fxyz123abc%3D".to_owned()),
        ("_auth=", "bm9ib2R5Om5vdGhpbmc=".to_owned()),
        ("{\"auths\":{\"x\":{\"auth\":\"", "bm9ib2R5Om5vdGhpbmc=".to_owned()),
    ] {
        all.push((named, "", value, Kind::Named));
    }
    all
}

#[test]
fn secrets_go() {
    let all = secrets();
    assert!(all.len() >= 120);
    for (before, begins, rest, kind) in all {
        for (first, last) in [("", ""), ("Use this: \n", "\nand go on."), ("é", " é"), ("", ", then"), ("", "\"")] {
            let behind = match before.chars().last() {
                _ if kind == Kind::Password => "@db.example/x",
                Some('"') if before.ends_with("\\\"") => "\\\"",
                Some('"') => "\"",
                Some('\'') => "'",
                _ => "",
            };
            let text = format!("{first}{before}{begins}{rest}{behind}{last}");
            let redacted = redact(&text);
            assert_eq!(redacted.text, format!("{first}{before}{begins}{MARK}{behind}{last}"), "{text}");
            assert_eq!(redacted.found, BTreeMap::from([(kind, 1)]), "{text}");
            let again = redact(&redacted.text);
            assert_eq!((again.text, again.found.len()), (redacted.text, 0), "what is redacted stays as it is");
        }
    }
}

/// Letters that do not show, or look like others, are copied along with a token from pages and documents.
#[test]
fn letters_that_only_look_different_hide_nothing() {
    let (first, rest) = LETTERS.split_at(8);
    for (text, want) in [
        (format!("ghp_{first}\u{200b}{rest}."), format!("ghp_{MARK}.")),
        (format!("ghp_{first}\u{ad}{rest}\u{200b}."), format!("ghp_{MARK}\u{200b}.")),
        (format!("gh\u{200b}p_{LETTERS}"), format!("gh\u{200b}p_{MARK}")),
        (format!("\u{ff47}hp_{LETTERS} é"), format!("\u{ff47}hp_{MARK} é")),
        (format!("ghp_{first}\u{ff21}{rest} é"), format!("ghp_{MARK} é")),
        (format!("sk\u{2011}ant\u{2011}{LETTERS}"), format!("sk\u{2011}ant\u{2011}{MARK}")),
        ("é pass\u{200b}word\u{ff1d}hun\u{200b}ter22 é".to_owned(), format!("é pass\u{200b}word\u{ff1d}{MARK} é")),
        ("password: \u{201c}hunter 22\u{201d}".to_owned(), format!("password: \u{201c}{MARK}\u{201d}")),
    ] {
        assert_eq!(left(&text), want, "{text}");
    }
    let untouched = "\u{200b}naïve – \u{ff47}\u{ad}, “so” it is\u{2028}\u{feff}";
    assert_eq!(left(untouched), untouched);
}
