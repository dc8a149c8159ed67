//! The source of the serving certificate, and the writer of the APIServices' bundle.

use cluster_state::registration::ServiceName;
use serde_json::json;

use super::*;

/// The name of the Secret that is mounted as the serving certificate.
fn mounted(objects: &[Value]) -> Option<&str> {
    let volumes = pod(objects)["volumes"].as_array().unwrap();
    let volume = volumes
        .iter()
        .find(|it| it["name"] == "volume-serving-cert");
    volume.map(|it| it["secret"]["secretName"].as_str().unwrap())
}

fn writes_nothing(objects: &[Value]) {
    let text = serde_json::to_string(objects).unwrap();
    assert!(!text.contains("\"patch\"") && !text.contains("\"secrets\""));
    assert_eq!(flag(objects, "certificate-secret"), None);
}

fn served_from_files(objects: &[Value]) {
    let dir = "/var/run/serving-cert";
    for (name, file) in [("tls-cert-file", "crt"), ("tls-private-key-file", "key")] {
        assert_eq!(flag(objects, name), Some(format!("{dir}/tls.{file}")));
    }
}

#[test]
fn by_itself_the_server_keeps_its_certificates_in_an_empty_secret() {
    for (fixture, secret) in [
        ("default", "prometheus-adapter-certificates"),
        ("our-keys", "pairs"),
    ] {
        let objects = render(fixture);
        assert_eq!(flag(&objects, "certificate-secret").unwrap(), secret);
        let object = named(&objects, "Secret", secret);
        assert!(object.get("data").is_none() && object.get("stringData").is_none());
        let role = &one(&objects, "Role")["rules"];
        let wanted = json!([{
            "apiGroups": [""], "resources": ["secrets"],
            "resourceNames": [secret], "verbs": ["get", "patch", "create"],
        }]);
        assert_eq!(*role, wanted);
        assert_eq!(mounted(&objects), None);
    }
}

#[test]
fn a_certificate_of_the_values_is_served_and_its_authority_trusted() {
    let objects = render("tls");
    writes_nothing(&objects);
    assert_eq!(of(&objects, "Role").len(), 0);
    served_from_files(&objects);
    let secret = one(&objects, "Secret");
    assert_eq!(secret["type"], "kubernetes.io/tls");
    assert_eq!(mounted(&objects), secret["metadata"]["name"].as_str());
    for service in of(&objects, "APIService") {
        assert_eq!(service["spec"]["caBundle"], secret["data"]["ca.crt"]);
    }
    let said = refusal("default", &["tls.enable=true"]);
    assert!(said.contains("tls.enable without tls.ca"), "{said}");
}

#[test]
fn a_secret_that_exists_is_mounted() {
    let objects = render("own-certificate");
    writes_nothing(&objects);
    served_from_files(&objects);
    assert_eq!(mounted(&objects), Some("metrics-pair"));
    assert_eq!(of(&objects, "Secret").len(), 0);
    let bundle = &of(&objects, "APIService")[0]["spec"]["caBundle"];
    assert!(bundle.is_string());
}

#[test]
fn a_certificate_without_its_authority_never_disables_verification() {
    for settings in [
        &["certificates.existingSecret=mine"][..],
        &["extraArguments={--tls-cert-file=/a,--tls-private-key-file=/b}"],
        &["extraArguments={--cert-dir=/tmp/cert}"],
    ] {
        let said = refusal("default", settings);
        assert!(said.contains("verification is never skipped"), "{said}");
        assert!(said.contains("set it in certificates.ca"), "{said}");
    }
    let objects = render("certificate-in-arguments");
    writes_nothing(&objects);
    assert_eq!(mounted(&objects), None);
    for service in of(&objects, "APIService") {
        let annotation = &service["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(*annotation, "monitoring/pair");
    }
}

#[test]
fn cert_manager_makes_what_kube_apiserver_verifies() {
    let objects = render("cert-manager");
    writes_nothing(&objects);
    served_from_files(&objects);
    let authority = named(&objects, "Certificate", &format!("{FULL}-authority"));
    let pair = named(&objects, "Certificate", FULL);
    assert_eq!(authority["spec"]["isCA"], true);
    assert_eq!(authority["spec"]["duration"], "17520h0m0s");
    let issuers = ["self-signed", "authority"].map(|it| format!("{FULL}-{it}"));
    for (certificate, issuer) in [authority, pair].into_iter().zip(&issuers) {
        assert_eq!(certificate["spec"]["issuerRef"]["name"], *issuer);
        named(&objects, "Issuer", issuer);
    }
    let issuer = named(&objects, "Issuer", &issuers[1]);
    assert_eq!(
        issuer["spec"]["ca"],
        json!({"secretName": authority["spec"]["secretName"]})
    );
    let service = ServiceName {
        namespace: NAMESPACE.to_owned(),
        name: FULL.to_owned(),
    };
    assert_eq!(pair["spec"]["dnsNames"], json!(service.dns_names()));
    assert_eq!(pair["spec"]["duration"], "2160h0m0s");
    assert_eq!(pair["spec"]["revisionHistoryLimit"], 3);
    assert_eq!(mounted(&objects), pair["spec"]["secretName"].as_str());
    for service in of(&objects, "APIService") {
        let annotation = &service["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(*annotation, format!("{NAMESPACE}/{FULL}"));
    }
}
