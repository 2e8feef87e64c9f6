//! A person as the API shows them to themselves.

use kitbag_model::Person;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::people::SignedIn;

/// A person.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Person)]
pub(crate) struct PersonView {
    id: String,
    email: String,
    #[schema(required)]
    display_name: Option<String>,
}

impl From<SignedIn> for PersonView {
    fn from(person: SignedIn) -> Self {
        Self { id: person.user.to_string(), email: person.email.to_string(), display_name: person.display_name }
    }
}

impl From<Person> for PersonView {
    fn from(person: Person) -> Self {
        Self { id: person.id.to_string(), email: person.email.to_string(), display_name: person.display_name }
    }
}
