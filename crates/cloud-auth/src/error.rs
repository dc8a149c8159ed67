//! The reasons why a request cannot be authenticated. No text contains a secret.

use std::fmt;
use std::path::PathBuf;

/// The reason why a request cannot be authenticated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudAuthError {
    /// The region of an Amazon service is unknown.
    #[error(
        "the region is unknown: the address does not name it (aps-workspaces.REGION.amazonaws.com): set \
         prometheus.auth.sigv4.region or AWS_REGION"
    )]
    NoRegion,
    /// An environment variable is missing or invalid: its name, what is wrong.
    #[error("the environment variable {0} {1}")]
    Variable(&'static str, &'static str),
    /// A file cannot be read or is invalid: its path, what is wrong.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, String),
    /// An issuer does not answer, or its answer is invalid.
    #[error("{issuer} at {address}: {reason}: {}", .issuer.remedy())]
    Failed {
        issuer: Issuer,
        /// Its address, without parameters.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// An issuer refuses the request.
    #[error("{issuer} at {address} answers HTTP {status}{text}: {}", .issuer.remedy())]
    Refused {
        issuer: Issuer,
        /// Its address, without parameters.
        address: String,
        /// The HTTP status.
        status: u16,
        /// The issuer's reason, after `: `; empty: it gives none.
        text: String,
    },
    /// TLS cannot be set up for requests to issuers.
    #[error("no client for HTTPS: {0}")]
    Client(String),
}

/// The service that issues a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issuer {
    /// Amazon's Security Token Service.
    Sts,
    /// The agent of EKS Pod Identity.
    PodIdentity,
    /// The metadata service of an EC2 instance.
    InstanceMetadata,
    /// The metadata server of Google Cloud.
    GoogleMetadata,
    /// Google's token endpoint.
    Google,
    /// Microsoft Entra ID.
    Entra,
    /// The metadata service of an Azure machine.
    AzureMetadata,
    /// The token endpoint of an OAuth 2.0 server.
    OAuth2,
}

impl fmt::Display for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sts => "the Security Token Service",
            Self::PodIdentity => "the EKS Pod Identity Agent",
            Self::InstanceMetadata => "the instance metadata service",
            Self::GoogleMetadata => "the metadata server",
            Self::Google => "Google's token endpoint",
            Self::Entra => "Microsoft Entra ID",
            Self::AzureMetadata => "the Azure Instance Metadata Service",
            Self::OAuth2 => "the token endpoint",
        })
    }
}

impl Issuer {
    const fn remedy(self) -> &'static str {
        match self {
            Self::Sts => {
                "check the trust policy of the IAM role, its ARN on the service account, and the network policies"
            }
            Self::PodIdentity => {
                "check the eks-pod-identity-agent of this node, and the pod identity association of the service \
                 account"
            }
            Self::InstanceMetadata => {
                "no other credentials are configured: give the service account an IAM role (IRSA or EKS Pod \
                 Identity), or give the node one and raise the hop limit of its metadata service to 2"
            }
            Self::GoogleMetadata => {
                "check workload identity and the role roles/monitoring.viewer of the service account, or set \
                 prometheus.auth.google.credentialsFile"
            }
            Self::Google => {
                "check the service account's binding, its role roles/monitoring.viewer, and the network policies"
            }
            Self::Entra => {
                "check the client ID, its federated credential, and the network policies"
            }
            Self::AzureMetadata => {
                "set up workload identity (label azure.workload.identity/use: \"true\" on the pod), or give the \
                 node this managed identity"
            }
            Self::OAuth2 => {
                "check tokenUrl, clientId, clientSecretFile and scopes in prometheus.auth.oauth2"
            }
        }
    }
}
