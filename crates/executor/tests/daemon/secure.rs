//! A server that is reached over TLS, and whose certificate an authority of its own signed.

use std::sync::Arc;

use kitbag_model::run::RunState;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::machine::{Bench, job, numbers};
use crate::stand_in::{PAIRING, StandIn};

/// Stands before a server, as a proxy with a certificate would. Its address.
#[allow(clippy::disallowed_methods, reason = "to the server of the test itself")]
async fn fronted(server: &StandIn, bench: &Bench) -> String {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    std::fs::write(bench.at("ca.pem"), authority.pem()).unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let behind = server.url().trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, behind) = (tls.clone(), behind.clone());
            tokio::spawn(async move {
                let mut outside = tls.accept(stream).await?;
                let mut inside = TcpStream::connect(behind).await?;
                tokio::io::copy_bidirectional(&mut outside, &mut inside).await
            });
        }
    });
    address
}

#[tokio::test]
async fn everything_goes_through_tls_once_the_authority_is_named() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let address = fronted(&server, &bench).await;
    let stranger = bench.run(&["pair", PAIRING, "--server", &address]).await;
    assert_eq!(stranger.status.code(), Some(1));
    let told = String::from_utf8_lossy(&stranger.stderr);
    assert!(told.contains("certificate") && told.contains("--ca-file"), "{told}");
    let authority = bench.at("ca.pem").to_str().unwrap().to_owned();
    let paired = bench.run(&["pair", PAIRING, "--server", &address, "--ca-file", &authority]).await;
    assert!(paired.status.success(), "{paired:?}");
    // The stand-in says that it is reached without TLS; whoever paired knows better.
    let program = bench.spawn(&["--ca-file", &authority]);
    let mut job = job("say 1; echo x > new");
    job.keep_files = true;
    let id = job.id;
    server.give(job);
    assert_eq!(server.result(id).await.state, RunState::Succeeded);
    assert_eq!(server.texts(id), numbers(1));
    assert_eq!(server.seen().put.len(), 1);
    program.terminate();
    assert_eq!(program.ended().await, Some(0));
}
