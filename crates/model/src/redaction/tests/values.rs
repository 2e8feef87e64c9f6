//! How far a value goes. Half of a password looks safe and is not.

use super::*;

#[test]
fn the_whole_value_goes() {
    for (text, want) in [
        // To white space, whatever is in it.
        ("password=abcd)hunter2zz", "password=@"),
        ("password=hun,ter2zz", "password=@"),
        ("password=ab;hunter2zz and", "password=@"),
        ("say password=ab;hunter2zz, then", "say password=@, then"),
        ("password=abcd'hunter2zz", "password=@"),
        ("password=abcd\"hunter2zz", "password=@"),
        ("password=(hunter2zz", "password=@"),
        ("password=<hunter2zz", "password=@"),
        ("password=$up3rS3cret", "password=@"),
        ("password=yourhunter2zz", "password=@"),
        ("password=\"[hunter2zz\"", "password=\"@\""),
        // To the quotation mark of its own kind.
        ("password = \"correct horse battery\" # mine", "password = \"@\" # mine"),
        ("password: 'it is \"mine\" now', x", "password: '@', x"),
        ("password=\"ab\\\"hunter2zz\" x", "password=\"@\" x"),
        ("echo 'password=correct horse' x", "echo 'password=@' x"),
        ("[\"--password=hunter2 zz\",\"--x\"]", "[\"--password=@\",\"--x\"]"),
        ("\"{\\\"password\\\": \\\"hunter2 zz\\\", \\\"a\\\": 1}\"", "\"{\\\"password\\\": \\\"@\\\", \\\"a\\\": 1}\""),
        // To the end of its line, where it has one of its own.
        ("password = correct horse battery\nuser = me", "password = @\nuser = me"),
        ("  password=correct horse battery  \n", "  password=@  \n"),
        ("- db_pass = hunter2 horse, staple\r\nx", "- db_pass = @\r\nx"),
        ("export PGPASSWORD=hunter2 && psql -h db", "export PGPASSWORD=@ && psql -h db"),
        // To what is next to it.
        ("host=db password=hunter2 dbname=x", "host=db password=@ dbname=x"),
        ("Server=db;Password=hunter2;Database=x", "Server=db;Password=@;Database=x"),
        ("https://x.example/?token=abc123&page=2", "https://x.example/?token=@&page=2"),
        ("{password:hunter2,user:me}", "{password:@,user:me}"),
        ("{\"dsn\":\"user=a password=hunter2\",\"x\":1}", "{\"dsn\":\"user=a password=@\",\"x\":1}"),
        // Below its name.
        ("password: |\n  hunter2zz\n  and more\nx: 1", "password: |\n  @\nx: 1"),
        ("api_key: >-\n  hunter2zz\n", "api_key: >-\n  @\n"),
        ("password:\n  hunter2zz\nx: 1", "password:\n  @\nx: 1"),
        ("<password>hunter2 zz</password>", "<password>@</password>"),
        ("<db:password kind=\"x\"> hunter2 </db:password>", "<db:password kind=\"x\"> @ </db:password>"),
        // Behind a name, where a program signs in.
        ("curl -u me:hunter2 https://x.example", "curl -u me:@ https://x.example"),
        ("curl -ume:hunter2 https://x.example", "curl -ume:@ https://x.example"),
        ("curl -s \\\n  --user 'me:hunter 2:zz' x", "curl -s \\\n  --user 'me:@' x"),
        ("[\"curl\", \"--proxy-user\", \"me:hunter2\"]", "[\"curl\", \"--proxy-user\", \"me:@\"]"),
        ("machine x.example login me password hunter2\n", "machine x.example login me password @\n"),
        ("machine x.example\n  login me\n  password hunter2", "machine x.example\n  login me\n  password @"),
        // All cookies.
        ("Cookie: sid=abc; csrf=def\nHost: x", "Cookie: @\nHost: x"),
        ("Set-Cookie: sid=s%3Aabc; Path=/\r\n", "Set-Cookie: @\r\n"),
        ("curl -H \"Cookie: a=b; c=d\" https://x.example", "curl -H \"Cookie: @\" https://x.example"),
        ("{\"Cookie\": \"a=b; c=d\", \"x\": 1}", "{\"Cookie\": \"@\", \"x\": 1}"),
        ("Authorization: Digest username=\"a\", response=\"b\"\nx", "Authorization: Digest @\nx"),
        ("h[\"Authorization\"] = \"Token abc123 def\";", "h[\"Authorization\"] = \"Token @\";"),
    ] {
        assert_eq!(left(text), want.replace('@', MARK), "{text}");
    }
}

/// A name says that the value goes, and where it begins like a token its end is not where the token's is.
#[test]
fn a_token_is_no_excuse_for_the_rest() {
    let token = format!("ghp_{}", &LETTERS[..36]);
    assert_eq!(left(&format!("token={token}")), format!("token=ghp_{MARK}"));
    assert_eq!(left(&format!("token={token}!hunter2zz x")), format!("token={MARK} x"));
    assert_eq!(left(&format!("token = get(\"{token}\")")), format!("token = get(\"ghp_{MARK}\")"));
}
