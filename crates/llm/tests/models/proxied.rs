//! The same over the guard's other client, which encrypted connections and those through a proxy take. The stand-in is the proxy here.

use futures_util::StreamExt;
use kitbag_guard::dial::EgressPolicy;
use kitbag_llm::{Heard, LlmError, Models, Provider, Stop, Wire};
use kitbag_testkit::model::{Anthropic, Gate, Reply, StandIn};

use crate::kit::{hello, limits, words};

const MESSAGES: &str = "http://models.example.org/v1/messages";

fn proxied() -> (StandIn, Models, Provider) {
    let stand_in = StandIn::start();
    let proxy = Some(stand_in.url().parse().unwrap());
    let models = Models::new(EgressPolicy { proxy, ..EgressPolicy::default() }, limits());
    let base_url = "http://models.example.org".parse().unwrap();
    (stand_in, models, Provider { wire: Wire::Anthropic, base_url, key: None })
}

#[tokio::test]
async fn asked_again_until_it_answers() {
    let (stand_in, models, provider) = proxied();
    stand_in.at(MESSAGES, Reply::new(529));
    stand_in.at(MESSAGES, Anthropic::new().text(&["é€😀"]).ends("end_turn").in_pieces_of(1));
    stand_in.at(MESSAGES, Anthropic::new().text(&["Again"]).ends("end_turn"));
    for said in ["é€😀", "Again"] {
        let heard: Vec<_> = models.stream(&provider, &hello()).map(Result::unwrap).collect().await;
        assert_eq!((words(&heard).as_str(), heard.last()), (said, Some(&Heard::Done(Stop::End))));
    }
    assert_eq!(stand_in.asked().len(), 3);
}

#[tokio::test]
async fn a_cut_is_seen() {
    let (stand_in, models, provider) = proxied();
    stand_in.at(MESSAGES, Anthropic::new().text(&["Hel"]).cut());
    let heard: Vec<_> = models.stream(&provider, &hello()).collect().await;
    assert!(matches!(heard.last(), Some(Err(LlmError::CutOff(_)))), "{heard:?}");
    assert_eq!(stand_in.asked().len(), 1);
}

#[tokio::test]
async fn who_stops_listening_closes_the_connection() {
    let ((stand_in, models, provider), gate) = (proxied(), Gate::new());
    stand_in.at(MESSAGES, Anthropic::new().text(&["Hel"]).hold(&gate).ends("end_turn"));
    let mut stream = models.stream(&provider, &hello());
    assert_eq!(stream.next().await, Some(Ok(Heard::Text("Hel".to_owned()))));
    gate.reached().await;
    drop(stream);
    stand_in.hung_up_times(1).await;
}
