//! The demo's labs: members of the circle from invitation to replica, and labs that pull without one. Each is a process of
//! its own.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use stroll::base::units::format_duration;
use stroll::peer::{Client, StatusReport};
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use super::content::{STREAM, TREE};
use super::plan::Plan;
use super::process::{Ending, end, output, start, stroll, tail};
use super::source::{Protocol, Source};

const CIRCLE: &str = "demo";
const SKIP: &str = "20ms";

/// How a stream is followed that changes all the time.
const POLL: &str = "1s";

/// Members look in every slot: what keeps a frame waiting then is their turn alone.
const POLL_IN_SLOTS: &str = "100ms";
const SETTLE: &str = "0s";

/// The stream goes before the tree, which can wait: what is left of a slot may be too little for a frame.
const STREAM_FIRST: i32 = 1;

/// How often the tree is looked at.
const MIRROR_EVERY: &str = "5s";

/// How long a member may take to answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long a process has to end when asked to, and all members together have.
const TO_LEAVE: Duration = Duration::from_secs(2);
const TO_END: Duration = Duration::from_secs(6);

/// One lab, and its process if it runs.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) name: String,
    pub(super) protocol: Protocol,
    folder: PathBuf,
    child: Option<Child>,
    /// Of a member of the circle.
    member: Option<Membership>,
}

#[derive(Debug)]
struct Membership {
    listen: SocketAddr,
    client: Client,
    page: Option<SocketAddr>,
}

impl Lab {
    fn new(folder: &Path, name: String, number: usize) -> anyhow::Result<Self> {
        let folder = folder.join(&name);
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let protocol = Protocol::of_member(number);
        Ok(Self { name, protocol, folder, child: None, member: None })
    }

    /// Where its replicas are.
    pub(super) fn replica(&self) -> PathBuf {
        self.folder.join("replica")
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// How it is; `None` if it does not answer, or is no member.
    pub(super) async fn status(&self) -> Option<StatusReport> {
        self.member.as_ref()?.client.status().await.ok()
    }

    /// Fails if it has ended by itself.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        match child.try_wait()? {
            Some(status) => bail!("{} ended by itself ({status}):\n  {}", self.name, tail(&self.log())),
            None => Ok(()),
        }
    }

    /// Asks it to end.
    async fn end(&mut self, patience: Duration) -> Ending {
        match self.child.take() {
            Some(mut child) => end(&mut child, patience).await,
            None => Ending::Well,
        }
    }

    /// Kills it, without warning.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        match self.child.take() {
            Some(mut child) => Ok(child.kill().await?),
            None => Ok(()),
        }
    }

    /// Runs it as a member, and waits until it answers.
    pub(super) async fn run(&mut self) -> anyhow::Result<()> {
        let Some(member) = &self.member else { bail!("{} is no member", self.name) };
        let (config, home) = (self.path("stroll.toml"), self.path("circles"));
        let mut args = vec!["run", "--config", &config, "--home", &home, "--circle", CIRCLE];
        let page = member.page.map(|page| page.to_string());
        if let Some(page) = &page {
            args.extend(["--page", page]);
        }
        self.child = Some(start(stroll(&self.folder, &args)?, &self.log())?);
        self.wait_until("answers", |_| true).await
    }

    /// Waits until its status is as wanted.
    pub(super) async fn wait_until(
        &mut self,
        what: &str,
        is_so: impl Fn(&StatusReport) -> bool,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !self.status().await.is_some_and(|status| is_so(&status)) {
            self.check()?;
            if begun.elapsed() > PATIENCE {
                bail!("{} never {what}:\n  {}", self.name, tail(&self.log()));
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// The address of its status page, as it says itself.
    pub(super) fn page(&self) -> Option<String> {
        let log = std::fs::read_to_string(self.log()).ok()?;
        log.lines().find_map(|line| line.strip_prefix("status page at ")).map(str::to_owned)
    }

    fn become_member(&mut self, source: &Source, page: Option<SocketAddr>) -> anyhow::Result<()> {
        // Free a moment ago, and given out in turn: nobody else will have it so soon.
        let listen = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr())?;
        let client = Client::new(&self.folder.join("circles").join(CIRCLE));
        std::fs::write(self.folder.join("stroll.toml"), self.settings(source))?;
        self.member = Some(Membership { listen, client, page });
        Ok(())
    }

    fn settings(&self, source: &Source) -> String {
        let text = |value: String| toml::Value::from(value).to_string();
        let part = |folder: &str| {
            let url = text(source.url(self.protocol, folder));
            let to = text(self.replica().join(folder).display().to_string());
            format!("name = {}\nurl = {url}\nto = {to}\ncircle = \"{CIRCLE}\"\n", text(folder.to_owned()))
        };
        format!(
            "[[subscribe]]\n{}poll = \"{POLL_IN_SLOTS}\"\nsettle = \"{SETTLE}\"\nsince = \"all\"\n\
             priority = {STREAM_FIRST}\n\n\
             [[mirror]]\n{}every = \"{MIRROR_EVERY}\"\n",
            part(STREAM),
            part(TREE),
        )
    }

    async fn found(&self, plan: &Plan, rules: &str, source: &Source) -> anyhow::Result<()> {
        let (home, listen) = (self.path("circles"), self.listen()?);
        let (slot, capacity) = (format_duration(plan.slot()), plan.capacity().to_string());
        let url = source.url(Protocol::Http, "");
        let mut args = vec!["circle", "create", CIRCLE, "--home", &home, "--listen", &listen];
        args.extend(["--source", &url, "--member", &self.name, "--rules", rules]);
        args.extend(["--slot", &slot, "--skip", SKIP, "--capacity", &capacity]);
        let ring = plan.ring.map(|ring| (ring.tickets.to_string(), ring.faults.to_string()));
        if let Some((tickets, faults)) = &ring {
            args.extend(["--mode", "tickets", "--tickets", tickets, "--faults", faults]);
        }
        output(stroll(&self.folder, &args)?).await.map(drop)
    }

    async fn join(&self, founder: &Self) -> anyhow::Result<()> {
        let home = founder.path("circles");
        let args = ["circle", "invite", &self.name, "--home", &home];
        let line = output(stroll(&founder.folder, &args)?).await?;
        let invitation = line.split_whitespace().nth(2).context("an invitation is not as expected")?;
        let (home, listen) = (self.path("circles"), self.listen()?);
        let args = ["join", invitation, "--home", &home, "--listen", &listen];
        output(stroll(&self.folder, &args)?).await.map(drop)
    }

    fn listen(&self) -> anyhow::Result<String> {
        Ok(self.member.as_ref().context("no member")?.listen.to_string())
    }
}

/// A circle of labs around the source, all running: one founds it, the others are invited and join.
pub(super) async fn circle(
    folder: &Path,
    plan: &Plan,
    rules: &str,
    source: &Source,
    page: Option<SocketAddr>,
) -> anyhow::Result<Vec<Lab>> {
    let mut founder = Lab::new(folder, "lab-1".to_owned(), 1)?;
    founder.become_member(source, page)?;
    founder.found(plan, rules, source).await?;
    founder.run().await?;
    let mut labs = vec![founder];
    for number in 2..=plan.members {
        let mut lab = Lab::new(folder, format!("lab-{number}"), number)?;
        lab.become_member(source, None)?;
        if let Some(founder) = labs.first() {
            lab.join(founder).await?;
        }
        lab.run().await?;
        labs.push(lab);
    }
    for lab in &mut labs {
        lab.wait_until("heard of another member", |status| !status.members.is_empty()).await?;
    }
    Ok(labs)
}

/// As many labs around their source, each for itself.
pub(super) fn uncoordinated(folder: &Path, plan: &Plan, source: &Source) -> anyhow::Result<Vec<Lab>> {
    (1..=plan.members).map(|number| alone(folder, number, source)).collect()
}

fn alone(folder: &Path, number: usize, source: &Source) -> anyhow::Result<Lab> {
    let mut lab = Lab::new(folder, format!("solo-{number}"), number)?;
    let (url, state) = (source.url(lab.protocol, STREAM), lab.path("state"));
    let to = lab.replica().join(STREAM).display().to_string();
    let mut args = vec!["subscribe", &url, &to, "--solo", "--since", "all", "--poll", POLL];
    args.extend(["--settle", SETTLE, "--state", &state, "--progress", "none"]);
    lab.child = Some(start(stroll(&lab.folder, &args)?, &lab.log())?);
    Ok(lab)
}

/// Lets one member after the other go: whoever has the token then finds somebody to give it to, but for the last. Gives
/// the names of those that failed.
pub(super) async fn leave_in_turn(labs: &mut [Lab]) -> Vec<String> {
    let end = Instant::now() + TO_END;
    let mut failed = Vec::new();
    for lab in labs.iter_mut().rev() {
        let left = end.saturating_duration_since(Instant::now());
        if lab.end(left.min(TO_LEAVE)).await == Ending::Failed {
            failed.push(format!("{}:\n  {}", lab.name, tail(&lab.log())));
        }
    }
    failed
}

/// Ends them all at the same time. How they take it is their affair.
pub(super) async fn end_all(labs: &mut [Lab]) {
    futures_util::future::join_all(labs.iter_mut().map(|lab| lab.end(TO_LEAVE))).await;
}

/// How each of them is, asked at the same time.
pub(super) async fn statuses(labs: &[Lab]) -> Vec<Option<StatusReport>> {
    futures_util::future::join_all(labs.iter().map(Lab::status)).await
}
