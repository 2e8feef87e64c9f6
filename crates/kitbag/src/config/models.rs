//! Where models are. Keys come from the variables that other programs know them by, and are for whoever runs the server alone.

use kitbag_model::Secret;
use kitbag_server::ModelSettings;
use url::Url;

use crate::failure::Failure;

pub(super) fn read(
    model: Option<String>,
    anthropic_url: Option<String>,
    openai_url: Option<String>,
    tool_bytes: Option<usize>,
    most_turns: Option<usize>,
) -> Result<ModelSettings, Failure> {
    if most_turns == Some(0) {
        return Err(Failure::wrong_use("max-turns must be at least 1"));
    }
    let defaults = ModelSettings::default();
    let key = |variable: &str| std::env::var(variable).ok().filter(|key| !key.trim().is_empty()).map(Secret::new);
    Ok(ModelSettings {
        anthropic_url: url("anthropic-url", anthropic_url, defaults.anthropic_url)?,
        openai_url: url("openai-url", openai_url, defaults.openai_url)?,
        anthropic_key: key("ANTHROPIC_API_KEY"),
        openai_key: key("OPENAI_API_KEY"),
        default: model
            .map(|text| text.parse().map_err(|reason| Failure::wrong_use(format!("model {reason}, not {text:?}"))))
            .transpose()?,
        tool_bytes: tool_bytes.unwrap_or(defaults.tool_bytes),
        most_turns: most_turns.unwrap_or(defaults.most_turns),
    })
}

fn url(name: &str, text: Option<String>, default: Url) -> Result<Url, Failure> {
    let Some(text) = text else { return Ok(default) };
    let wrong = || Failure::wrong_use(format!("{name} must be an address like https://models.example.org"));
    let url: Url = text.parse().map_err(|_| wrong())?;
    let is_good = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none();
    is_good.then_some(url).ok_or_else(wrong)
}
