//! What a function's hints become, through the real worker: a table with a row for each sort of parameter and result. A row
//! says the schema that is described, arguments, and what the function says of what arrived.

use std::fs;

use kitbag_model::PythonNeeds;
use kitbag_python::{Described, Entry, Program};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::kit::Kit;

const PLAIN: (&str, &str) = (include_str!("inference/plain.py"), include_str!("inference/plain.json"));
const MODELS: (&str, &str) = (include_str!("inference/models.py"), include_str!("inference/models.json"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    tool: String,
    problem: Option<String>,
    /// The properties of the schema, those of them that must be there, and its definitions.
    takes: Option<Value>,
    required: Option<Value>,
    defs: Option<Value>,
    name: Option<String>,
    description: Option<String>,
    requires_confirmation: Option<bool>,
    category: Option<String>,
    output_schema: Option<Map<String, Value>>,
    args: Option<Value>,
    #[serde(default)]
    gives: Value,
}

impl Row {
    fn input_schema(&self) -> Value {
        let Some(takes) = &self.takes else { return json!({}) };
        let mut schema = json!({
            "type": "object",
            "properties": takes,
            "required": self.required,
            "additionalProperties": false,
        });
        if let Some(defs) = &self.defs {
            schema["$defs"] = defs.clone();
        }
        schema
    }

    fn check(&self, found: &Described) {
        assert_eq!(found.problem, self.problem, "{}", self.tool);
        let schemas = (Value::Object(found.input_schema.clone()), found.output_schema.clone());
        assert_eq!(schemas, (self.input_schema(), self.output_schema.clone()), "{}", self.tool);
        let found = (&found.name, &found.description, found.requires_confirmation, &found.category);
        let wanted = (&self.name, &self.description, self.requires_confirmation, &self.category);
        assert_eq!(found, wanted, "{}", self.tool);
    }
}

fn rows(table: &str) -> Vec<Row> {
    serde_json::from_str(table).unwrap()
}

/// The whole toolset, with both modules.
fn toolset(kit: &Kit, needs: &[&str]) -> Program {
    let mut program = kit.program("inference", "", &[]);
    fs::write(program.folder.join("plain.py"), PLAIN.0).unwrap();
    fs::write(program.folder.join("models.py"), MODELS.0).unwrap();
    let entry = |entrypoint: String| Entry { entrypoint: entrypoint.parse().unwrap(), input_schema: None };
    for (module, table) in [("plain", PLAIN.1), ("models", MODELS.1)] {
        program.entries.extend(rows(table).iter().map(|row| entry(format!("{module}:{}", row.tool))));
    }
    let dependencies = needs.iter().map(|need| need.parse().unwrap()).collect();
    program.needs = PythonNeeds { version: None, dependencies };
    program
}

/// Calls every tool of a module that can be called.
async fn call_all(kit: &Kit, program: &Program, module: &str, rows: &[Row]) {
    for row in rows.iter().filter(|row| row.problem.is_none()) {
        let mut job = kit.job("f", row.args.clone().unwrap());
        job.entrypoint = format!("{module}:{}", row.tool).parse().unwrap();
        let (finished, _) = kit.call(program, job).await;
        assert_eq!(finished.result.unwrap(), row.gives, "{}", row.tool);
    }
}

#[tokio::test]
async fn without_packages() {
    let kit = Kit::new();
    let program = toolset(&kit, &[]);
    let (plain, models) = (rows(PLAIN.1), rows(MODELS.1));
    let found = kit.workers.describe(&program).await.unwrap().tools;
    assert_eq!(found.len(), plain.len() + models.len());
    for (row, found) in plain.iter().zip(&found) {
        row.check(found);
    }
    // Only what needs Pydantic says so.
    for found in &found[plain.len()..] {
        let problem = found.problem.as_deref().unwrap();
        assert!(problem.contains("No module named 'pydantic'"), "{problem}");
    }
    call_all(&kit, &program, "plain", &plain).await;
}

#[tokio::test]
async fn with_pydantic() {
    let kit = Kit::new();
    let program = toolset(&kit, &["pydantic==2.14.3"]);
    let (plain, models) = (rows(PLAIN.1), rows(MODELS.1));
    let found = kit.workers.describe(&program).await.unwrap().tools;
    assert_eq!(found.len(), plain.len() + models.len());
    for (row, found) in plain.iter().chain(&models).zip(&found) {
        row.check(found);
    }
    call_all(&kit, &program, "plain", &plain).await;
    call_all(&kit, &program, "models", &models).await;
}
