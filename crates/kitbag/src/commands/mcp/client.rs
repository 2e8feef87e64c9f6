//! `kitbag mcp client`

use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::address;
use crate::cli::ServerClient;
use crate::client::Client;
use crate::failure::{Doing, Failure};
use crate::output::Output;

pub(super) async fn run(client: &Client, flags: ServerClient, output: &Output) -> Result<ExitCode, Failure> {
    let server = flags.server.clone();
    let path = format!("{}/client", address(&server));
    if flags.forget {
        client.delete(&path).await?;
        return output.result(&json!({ "forgotten": server }), |_| format!("{server}: Kitbag registers itself again"));
    }
    client.put(&path, &body(flags)?).await?;
    output.result(&json!({ "changed": server }), |_| format!("{server}: Kitbag is the client that you named"))
}

fn body(flags: ServerClient) -> Result<Value, Failure> {
    let key = flags.key_file.as_deref().map(secret).transpose()?;
    let secret = flags.secret_file.as_deref().map(secret).transpose()?;
    let fields = [
        ("clientId", flags.id.map(Value::from)),
        ("clientSecret", secret.map(Value::from)),
        ("privateKey", key.map(Value::from)),
        ("algorithm", flags.algorithm.map(Value::from)),
        ("grant", Some(Value::from(if flags.machine { "machine" } else { "person" }))),
        ("scopes", Some(Value::from(flags.scopes))),
        ("issuer", flags.issuer.map(Value::from)),
    ];
    Ok(Value::Object(
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>(),
    ))
}

/// Not a flag: others on this machine see what programs are started with.
fn secret(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    if file == Path::new("-") {
        io::stdin().read_to_string(&mut text).doing("cannot read the secret from standard input")?;
    } else {
        text = std::fs::read_to_string(file).doing(file.display())?;
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
