//! `ui`: `top`, `explain` and `check` in a browser.
//!
//! Each request renders its page from what a running server answers to the user's own
//! credentials; nothing is kept. The demonstration serves the pages for its own fleet.

mod browser;
mod frame;
mod guard;
mod pages;
mod past;
mod query;
mod rescales;

use std::io::{self, IsTerminal};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use clap::Args;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use tokio::net::TcpListener;
use tokio::sync::watch;

use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::serve::listener::{Limits, Listener};
use cluster_state::client::Client;
use configuration::Flags;

use super::Failure;
use super::cluster::{Cluster, ClusterArgs};
use super::document::Document;
use super::process::interrupted;
use super::terminal::print;
use super::top::What;
use frame::{
    Ask, CHECK, FINDINGS, FLEET, GPU, GPUS, HPA, HPAS, NAMESPACES, PODS, SOURCES, Tab, WHY,
    WORKLOADS,
};
use guard::{Admission, Guard};
use query::{Query, link};

/// The most concurrent connections: enough for two browsers.
const CONNECTIONS: usize = 32;

/// Headers of every answer: the page loads nothing from other sites, sends nothing to
/// them, is not framed and not cached.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (X_FRAME_OPTIONS, "DENY"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

const LOCKED: &str = "The address that the program printed opens this page once, in one browser.\n\
                      If the page is open in this browser already, go to ./ in its address bar. Otherwise start the program again.\n";

const FOREIGN: &str =
    "Open this page by the address that the program printed. Other addresses are rejected.\n";

/// The fleet, its workloads and autoscalers, and why their numbers are what they
/// are, in a browser on this machine. Asks the server of a cluster with your own
/// rights, and changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl gpu-metrics ui
  kubectl gpu-metrics ui -n ml
  kubectl gpu-metrics ui --context prod --port 8080")]
pub struct UiArgs {
    /// Port on 127.0.0.1; 0 selects a free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Print the address only. Other users of this machine may see the arguments of a browser
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    prometheus: Flags,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Serves the pages on this machine until a signal ends the command.
pub async fn run(args: UiArgs) -> Result<(), Failure> {
    let cluster = args.cluster.connect().await?;
    let local = Local::bind(args.port).await?;
    print(&format!("open {}\nCtrl-C ends it.", local.url()));
    if !args.no_browser && io::stdout().is_terminal() {
        browser::open(&local.url());
    }
    let (stop, stopped) = watch::channel(false);
    let name = cluster.client.address().to_owned();
    let pages = routes(
        cluster.client,
        args.cluster.namespace,
        &name,
        args.prometheus,
    );
    let serving = tokio::spawn(local.serve(pages, stopped));
    let interrupted = interrupted().await;
    let _ = stop.send(true);
    let _ = serving.await;
    interrupted.map_err(|error| Failure::Failed(format!("no signal handler: {error}")))
}

/// A port of this machine that admits one browser.
#[derive(Debug)]
pub struct Local {
    tcp: TcpListener,
    guard: Arc<Guard>,
}

impl Local {
    /// Binds a port of this machine; 0 selects a free one.
    ///
    /// # Errors
    /// When the port is taken.
    pub async fn bind(port: u16) -> Result<Self, Failure> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |error: io::Error| {
            Failure::Failed(format!(
                "cannot listen on {address}: {error}: choose another port with --port"
            ))
        };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let host = tcp.local_addr().map_err(failed)?.to_string();
        let guard =
            Guard::new(host).ok_or_else(|| Failure::Failed("no random numbers".to_owned()))?;
        Ok(Self {
            tcp,
            guard: Arc::new(guard),
        })
    }

    /// The address with the token, which works once.
    #[must_use]
    pub fn url(&self) -> String {
        self.guard.url()
    }

    /// Serves until `stop`.
    pub async fn serve(self, pages: Router, stop: watch::Receiver<bool>) {
        let pages = pages
            .layer(from_fn_with_state(self.guard, guarded))
            .layer(from_fn(marked));
        let limits = Limits {
            connections: CONNECTIONS,
            ..Limits::default()
        };
        let listener = Listener::without_tls(self.tcp, limits);
        listener.run(into_service(pages), stop).await;
    }
}

async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    // A link preview must not use the token up.
    let is_look = request.method() == Method::HEAD;
    if is_look && Query::of(request.uri()).get("token").is_some() {
        return (StatusCode::UNAUTHORIZED, LOCKED).into_response();
    }
    match guard.judge(request.uri(), request.headers()) {
        Admission::Pass => next.run(request).await,
        Admission::Enter(cookie) => {
            let cookie = cookie.map(|it| [(SET_COOKIE, it)]);
            (cookie, Redirect::to("./")).into_response()
        }
        Admission::Foreign => (StatusCode::FORBIDDEN, FOREIGN).into_response(),
        Admission::Unknown => (StatusCode::UNAUTHORIZED, LOCKED).into_response(),
    }
}

/// Sets the headers, also on refusals.
async fn marked(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The pages, rendered from the answers to `client`; `name` is the name of the cluster.
/// `namespace` is the default if the address has none; `None` means all. `prometheus` names
/// the store of the past; without it, it is the one that the server reads. The caller adds the
/// headers.
pub fn routes(client: Client, namespace: Option<String>, name: &str, prometheus: Flags) -> Router {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(CONTENT_TYPE, kind)], text) })
    };
    let objects = |tab: Tab, what: What| page(tab, move |ask| pages::objects(ask, what));
    Router::new()
        .merge(page(FLEET, pages::fleet))
        .merge(objects(GPUS, What::Gpus))
        .merge(objects(WORKLOADS, What::Workloads))
        .merge(objects(PODS, What::Pods))
        .merge(objects(NAMESPACES, What::Namespaces))
        .merge(objects(HPAS, What::Hpas))
        .merge(page(HPA, pages::decision))
        .merge(page(GPU, pages::gpu))
        .merge(page(SOURCES, pages::sources))
        .merge(page(WHY, pages::why))
        .merge(page(FINDINGS, pages::findings))
        .merge(page(CHECK, pages::code))
        .route(
            "/page.css",
            file("text/css; charset=utf-8", include_str!("page.css")),
        )
        .route(
            "/page.js",
            file("text/javascript; charset=utf-8", include_str!("page.js")),
        )
        .route("/icon.svg", file("image/svg+xml", include_str!("icon.svg")))
        .fallback(|| async { (StatusCode::NOT_FOUND, "no such page: go to ./\n") })
        .with_state(Source {
            cluster: Cluster::of(client, None),
            namespace,
            flags: Arc::new(prometheus),
            name: name.into(),
        })
}

#[derive(Clone, Debug)]
struct Source {
    cluster: Cluster,
    /// The default namespace if the address has none; `None` means all.
    namespace: Option<String>,
    flags: Arc<Flags>,
    name: Arc<str>,
}

fn page<V, F>(tab: Tab, view: V) -> Router<Source>
where
    V: Fn(Arc<Ask>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Document, Failure>> + Send + 'static,
{
    let answer = move |State(source): State<Source>, uri: Uri| async move {
        let ask = Arc::new(Ask::new(tab, &source, &uri));
        match view(Arc::clone(&ask)).await {
            // A user without a right to nodes may have one to a namespace.
            Err(Failure::Refused(_)) if tab == FLEET => {
                let home = link("workloads", [("namespace", &*ask.cluster.namespace)]);
                Redirect::to(&home).into_response()
            }
            document => ask.page(document),
        }
    };
    Router::new().route(&format!("/{}", tab.path), get(answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_state::testing::fake_kube::FakeKube;

    #[tokio::test]
    async fn the_first_page_is_the_one_that_was_recorded() {
        let kube = FakeKube::start().await;
        let source = Source {
            cluster: crate::tests::recorded(&kube).await,
            namespace: None,
            flags: Arc::default(),
            name: "test".into(),
        };
        let ask = Ask::new(FLEET, &source, &Uri::from_static("/"));
        let document = pages::fleet(Arc::new(ask)).await.unwrap();
        let changed = crate::tests::changed("fleet", &document);
        assert!(changed.is_empty(), "{}", changed.join("\n\n"));
    }
}
