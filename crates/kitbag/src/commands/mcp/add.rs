//! `kitbag mcp add`

use serde_json::{Map, Value, json};

use crate::cli::AddServer;
use crate::failure::{Doing, Failure};

/// What the flags say of a server.
pub(super) fn body(flags: AddServer) -> Result<Value, Failure> {
    let mut words = flags.command.into_iter();
    let command = words.next();
    if command.is_none() && flags.url.is_none() {
        return Err(Failure::wrong_use(
            "say what to start or where to dial: kitbag mcp add NAME -- COMMAND ARGS…, or kitbag mcp add NAME --url URL",
        ));
    }
    let args: Vec<String> = words.collect();
    let cwd = flags.cwd.map(|cwd| match cwd.to_str() {
        // What refers to a variable is a folder only once that is resolved.
        Some(text) if text.contains("${") => Ok(text.to_owned()),
        _ => absolute(&cwd),
    });
    let fields = [
        ("name", Some(Value::from(flags.name))),
        ("serverType", flags.transport.map(Value::from)),
        ("command", command.map(Value::from)),
        ("args", Some(args).filter(|args| !args.is_empty()).map(Value::from)),
        ("cwd", cwd.transpose()?.map(Value::from)),
        ("env", pairs("--env", &['='], flags.env, |name| Some(format!("${{{name}}}")))?),
        ("url", flags.url.map(Value::from)),
        ("headers", pairs("--header", &['=', ':'], flags.headers, |_| None)?),
        ("description", flags.description.map(Value::from)),
        ("requiresConfirmation", flags.confirm.map(Value::from)),
        ("strictRecords", flags.strict_records.then_some(json!(true))),
        ("enabled", flags.disabled.then_some(json!(false))),
        ("sandbox", flags.sandbox.then_some(json!(true))),
    ];
    Ok(Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()))
}

/// A folder as the server will find it, wherever that was started.
fn absolute(folder: &std::path::Path) -> Result<String, Failure> {
    let folder = std::path::absolute(folder).doing(folder.display())?;
    let text = folder.to_str().ok_or_else(|| Failure::wrong_use("--cwd: the folder's name is not UTF-8"))?;
    Ok(text.to_owned())
}

/// A name, one of the `marks`, and a value; `alone` says what a name without a value stands for. Values are not repeated in errors.
fn pairs(
    flag: &str,
    marks: &[char],
    texts: Vec<String>,
    alone: impl Fn(&str) -> Option<String>,
) -> Result<Option<Value>, Failure> {
    let mut map = Map::new();
    for text in texts {
        let split = text.find(marks).map(|at| (text[..at].trim(), text[at + 1..].trim_start()));
        let (name, value) = match split {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => match alone(&text) {
                Some(value) => (text, value),
                None => return Err(Failure::wrong_use(format!("{flag} must be NAME=VALUE"))),
            },
        };
        if map.insert(name.clone(), Value::from(value)).is_some() {
            return Err(Failure::wrong_use(format!("{flag} {name} is given twice")));
        }
    }
    Ok((!map.is_empty()).then_some(Value::Object(map)))
}
