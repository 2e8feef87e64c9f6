//! HTTPS: whom we believe, and no way back to plain HTTP.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use url::Url;

use super::twin::{Answer, Stub, Twin, ample, ok, redirect};
use crate::dial::fetch::fetch_by;
use crate::dial::{EgressPolicy, FetchError, Fetched};

/// A company's own authority, and a twin that it certified as `registry.test`.
struct Company {
    twin: Twin,
    folder: TempDir,
}

impl Company {
    async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["registry.test".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        Self { twin: Twin::at("127.0.0.1:0".parse().unwrap(), Some(tls), answer).await, folder }
    }

    fn url(&self, name: &str) -> Url {
        format!("https://{name}:{}/", self.twin.address.port()).parse().unwrap()
    }

    fn ca_file(&self) -> Option<PathBuf> {
        Some(self.folder.path().join("ca.pem"))
    }

    async fn fetch(&self, name: &str, ca_file: Option<PathBuf>) -> Result<Fetched, FetchError> {
        let policy = EgressPolicy { ca_file, https_only: true, ..self.twin.policy() };
        fetch_by(&Stub::new(&[&["127.0.0.1"]]), &self.url(name), &policy, &ample(), &mut Vec::new()).await
    }
}

#[tokio::test]
async fn a_company_with_its_own_authority_is_believed_once_it_is_named() {
    let company = Company::start(|_| ok("hello")).await;
    assert_eq!(company.fetch("registry.test", company.ca_file()).await.unwrap().size, 5);
    let stranger = company.fetch("registry.test", None).await.unwrap_err();
    assert!(
        matches!(&stranger, FetchError::Connect { reason, .. } if reason.contains("UnknownIssuer")),
        "{stranger:?}"
    );
    let other = company.fetch("other.test", company.ca_file()).await.unwrap_err();
    assert!(matches!(&other, FetchError::Connect { reason, .. } if reason.contains("other.test")), "{other:?}");
    assert_eq!(company.twin.heads().len(), 1);
}

#[tokio::test]
async fn a_file_of_authorities_that_is_of_no_use_is_named() {
    let company = Company::start(|_| ok("hello")).await;
    let empty = company.folder.path().join("empty.pem");
    fs::write(&empty, "nothing").unwrap();
    for path in [empty, company.folder.path().join("missing.pem")] {
        let error = company.fetch("registry.test", Some(path.clone())).await.unwrap_err();
        assert!(matches!(&error, FetchError::CaFile { path: named, .. } if *named == path), "{error:?}");
    }
}

#[tokio::test]
async fn there_is_no_way_back_to_plain_http() {
    let plain = Twin::start(|_| ok("hello")).await;
    let location = plain.url("/").to_string();
    let company = Company::start(move |_| redirect(&location)).await;
    let mut policy = EgressPolicy { ca_file: company.ca_file(), ..company.twin.policy() };
    policy.allow.extend(plain.policy().allow);
    let names = Stub::new(&[&["127.0.0.1"]]);
    let answer = fetch_by(&names, &company.url("registry.test"), &policy, &ample(), &mut Vec::new()).await;
    assert!(matches!(answer, Err(FetchError::Downgrade { .. })), "{answer:?}");
    assert!(plain.heads().is_empty());
}
