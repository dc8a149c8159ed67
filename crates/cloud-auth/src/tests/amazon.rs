use super::*;
use crate::issuer::Platform;

const STORE: &str = "https://aps-workspaces.eu-central-1.amazonaws.com/workspaces/ws-1";

const KEYS: &str = r#"{"Code": "Success", "AccessKeyId": "AKID", "SecretAccessKey": "hunter2",
    "Token": "session", "Expiration": "2100-01-01T00:00:00Z"}"#;

const FAR: &str = "2100-01-01T00:00:00Z";

fn sts_answer(end: &str) -> String {
    format!(
        "<AssumeRoleResponse><Credentials>\n<AccessKeyId>AKID</AccessKeyId>\
         <SecretAccessKey>hunter2</SecretAccessKey><SessionToken>session</SessionToken>\
         <Expiration>{end}</Expiration></Credentials></AssumeRoleResponse>"
    )
}

fn method() -> AuthMethod {
    AuthMethod::SigV4(AwsSettings {
        region: Some("eu-central-1".to_owned()),
        ..AwsSettings::default()
    })
}

/// Asserts that the method signs with the key AKID for the region of the store.
async fn assert_signed<const N: usize>(method: AuthMethod, variables: [(&'static str, String); N]) {
    let authorization = authorization(&authenticator(method, variables)).await;
    let authorization = authorization.unwrap();
    let (before, after) = authorization.split_once("AKID/").unwrap();
    assert_eq!(before, "AWS4-HMAC-SHA256 Credential=");
    let scope = "/eu-central-1/aps/aws4_request, ";
    let (_, headers) = after.split_once(scope).expect(after);
    let signed = "SignedHeaders=host;x-amz-date;x-amz-security-token,";
    assert!(headers.starts_with(signed), "{after}");
}

/// The error of a method that gets no keys.
async fn refused<const N: usize>(variables: [(&'static str, String); N]) -> String {
    let authenticator = authenticator(method(), variables);
    authorization(&authenticator).await.unwrap_err()
}

#[test]
fn the_region_is_that_of_the_address_else_the_configured_one_and_never_empty() {
    let region = |store: &str, configured: Option<&str>, variable: &str| {
        let environment = environment([("AWS_REGION", variable.to_owned())]);
        let platform = Platform::new(environment).unwrap();
        let settings = AwsSettings {
            region: configured.map(str::to_owned),
            ..AwsSettings::default()
        };
        let region = aws::region(&store.parse().unwrap(), &settings, &platform);
        region.map_err(|error| error.to_string())
    };
    let vpc = "https://vpce-1.aps-workspaces.us-west-2.vpce.amazonaws.com/workspaces/w";
    let proxy = "http://proxy:8080";
    for (store, configured, variable, wanted) in [
        (STORE, Some("other"), "another", "eu-central-1"),
        (vpc, None, "", "us-west-2"),
        (proxy, Some("eu-west-1"), "another", "eu-west-1"),
        (proxy, None, "eu-north-1", "eu-north-1"),
    ] {
        assert_eq!(region(store, configured, variable).unwrap(), wanted);
    }
    let error = region(proxy, None, "").unwrap_err();
    assert!(error.contains("prometheus.auth.sigv4.region"), "{error}");
}

/// The variables of a pod with a web identity.
fn web_identity(sts: &FakeIssuer, token: &tempfile::NamedTempFile) -> [(&'static str, String); 3] {
    [
        ("AWS_ENDPOINT_URL_STS", sts.url.clone()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r".to_owned()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", path(token)),
    ]
}

#[tokio::test]
async fn a_web_identity_is_exchanged_at_the_security_token_service() {
    let sts = FakeIssuer::answering(&sts_answer(FAR)).await;
    let token = file("web-token");
    assert_signed(method(), web_identity(&sts, &token)).await;
    let asked = sts.asked().pop().unwrap();
    // The address contains no token.
    assert_eq!(
        (asked.method.as_str(), &asked.uri.to_string()[..]),
        ("POST", "/")
    );
    assert_eq!(asked.param("Action").unwrap(), "AssumeRoleWithWebIdentity");
    assert_eq!(asked.param("RoleArn").unwrap(), "arn:aws:iam::1:role/r");
    assert_eq!(asked.param("WebIdentityToken").unwrap(), "web-token");
}

#[tokio::test]
async fn pod_identity_reads_the_token_file_for_each_request() {
    let agent = FakeIssuer::answering(KEYS).await;
    let token = file("agent-1");
    for content in ["agent-1", "agent-2"] {
        std::fs::write(token.path(), content).unwrap();
        let keys = format!("{}/v1/credentials", agent.url);
        let variables = [
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", keys),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path(&token)),
        ];
        assert_signed(method(), variables).await;
        let asked = agent.asked().pop().unwrap();
        assert_eq!(asked.headers["authorization"], content);
    }
}

#[tokio::test]
async fn keys_come_by_plain_http_only_from_the_node() {
    for (uri, is_of_node) in [
        ("http://169.254.170.23/v1/credentials", true),
        ("http://[fd00:ec2::23]/v1/credentials", true),
        ("http://169.254.170.2/v2", true),
        ("http://169.254.169.254/", false),
        ("http://10.0.0.1/", false),
        ("http://localhost.example/", false),
        ("ftp://a/", false),
    ] {
        assert_eq!(aws::is_of_node(&uri.parse().unwrap()), is_of_node, "{uri}");
    }
    let elsewhere = "http://10.0.0.1/".to_owned();
    let error = refused([("AWS_CONTAINER_CREDENTIALS_FULL_URI", elsewhere)]).await;
    assert!(error.contains("is plain HTTP to another host"), "{error}");
}

#[tokio::test]
async fn the_role_of_the_node_is_read_with_a_token() {
    let metadata = FakeIssuer::start(|asked| {
        let roles = "/latest/meta-data/iam/security-credentials/";
        let has_token = asked.header("x-aws-ec2-metadata-token") == Some("imds");
        let path = asked.uri.path();
        match (asked.method.as_str(), path, path.strip_prefix(roles)) {
            ("PUT", "/latest/api/token", _) => (200, "imds\n".to_owned()),
            ("GET", _, Some("")) if has_token => (200, "role-1\n".to_owned()),
            ("GET", _, Some("role-1")) if has_token => (200, KEYS.to_owned()),
            _ => (401, String::new()),
        }
    })
    .await;
    let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url.clone())];
    assert_signed(method(), variables).await;
}

#[tokio::test]
async fn a_role_is_assumed_with_the_keys_of_the_platform() {
    let sts = FakeIssuer::answering(&sts_answer(FAR)).await;
    let of_role = AuthMethod::SigV4(AwsSettings {
        region: Some("eu-central-1".to_owned()),
        role_arn: Some("arn:aws:iam::2:role/other".to_owned()),
        external_id: Some("outside".to_owned()),
    });
    let variables = [
        ("AWS_ENDPOINT_URL_STS", sts.url.clone()),
        ("AWS_ACCESS_KEY_ID", "FIRST".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "first-secret".to_owned()),
    ];
    assert_signed(of_role, variables).await;
    let asked = sts.asked().pop().unwrap();
    assert_eq!(asked.param("ExternalId").unwrap(), "outside");
    let signature = asked.header("authorization").unwrap();
    for part in ["Credential=FIRST/", "/eu-central-1/sts/aws4_request"] {
        assert!(signature.contains(part), "{signature}");
    }
}

#[tokio::test]
async fn errors_about_expired_keys_refusals_and_garbage_contain_no_secret() {
    let denied = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not authorized for web-token</Message></Error></ErrorResponse>";
    let refused_with = "<Message>Not authorized for ***</Message>";
    let (past, garbled) = (sts_answer("2001-01-01T00:00:00Z"), sts_answer("soon"));
    for (status, body, words) in [
        (403, denied.to_owned(), refused_with),
        (200, past, "its answer has expired"),
        (200, garbled, "its answer has expired"),
        (200, "<html>".to_owned(), "has no keys"),
        (200, "x".repeat(300 << 10), "is too long"),
    ] {
        let sts = FakeIssuer::start(move |_| (status, body.clone())).await;
        let token = file("web-token");
        let error = refused(web_identity(&sts, &token)).await;
        assert!(error.contains(words), "{error}");
        let has_secret = error.contains("web-token") || error.contains("hunter2");
        assert!(!has_secret, "{error}");
    }
}

#[tokio::test]
async fn missing_environment_variables_are_named() {
    let error = refused([("AWS_ACCESS_KEY_ID", "AKID".to_owned())]).await;
    let wanted = "AWS_SECRET_ACCESS_KEY: this environment variable is not set: check the IAM role";
    assert!(error.starts_with(wanted), "{error}");
}
