//! The lab source over FTP: libunftp's server on the served folder, read only, through the shared link. Started by `source`.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use libunftp::ServerBuilder;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use unftp_core::auth::DefaultUser;
use unftp_core::storage::{Error, ErrorKind, FEATURE_RESTART, Fileinfo, Result, StorageBackend};
use unftp_sbe_fs::{Filesystem, Meta};

use super::source::{PIECE, Shop};

/// Read at once: more than a frame, because each reading goes to another thread and back.
const READ: usize = 1 << 20;

/// Answers until the task is ended.
pub(super) async fn serve(listener: TcpListener, root: PathBuf, shop: Shop) {
    let root: Arc<Path> = root.into();
    while let Ok((connection, _)) = listener.accept().await {
        let (root, shop) = (Arc::clone(&root), shop.clone());
        // Answers are small and wanted at once. If that cannot be had, they are slower.
        let _ = connection.set_nodelay(true);
        let shelves = move || Shelves { files: Filesystem::new(&*root), shop: shop.clone() };
        let Ok(server) = ServerBuilder::new(Box::new(shelves)).greeting("stroll demo").build() else {
            return;
        };
        tokio::spawn(server.service(connection));
    }
}

/// The served folder, for one connection.
#[derive(Debug)]
struct Shelves {
    /// Opened when the connection came; if that failed, every question fails.
    files: io::Result<Filesystem>,
    shop: Shop,
}

impl Shelves {
    fn files(&self) -> Result<&Filesystem> {
        self.files.as_ref().map_err(|error| Error::from(io::Error::from(error.kind())))
    }

    async fn send<W>(&self, file: Box<dyn AsyncRead + Send + Sync + Unpin>, output: &mut W) -> Result<u64>
    where
        W: AsyncWrite + Unpin + Send + ?Sized,
    {
        let transfer = self.shop.meter.begin();
        let mut file = BufReader::with_capacity(READ, file);
        let (mut piece, mut total) = (vec![0; PIECE], 0);
        loop {
            let count = file.read(&mut piece).await?;
            let Some(bytes) = piece.get(..count).filter(|bytes| !bytes.is_empty()) else {
                output.flush().await?;
                return Ok(total);
            };
            self.shop.link.take(count).await;
            output.write_all(bytes).await?;
            transfer.sent(count);
            total += count as u64;
        }
    }
}

fn read_only<T>() -> Result<T> {
    Err(Error::from(ErrorKind::PermissionDenied))
}

#[async_trait]
impl StorageBackend<DefaultUser> for Shelves {
    type Metadata = Meta;

    fn supported_features(&self) -> u32 {
        FEATURE_RESTART
    }

    async fn metadata<P: AsRef<Path> + Send + Debug>(&self, user: &DefaultUser, path: P) -> Result<Meta> {
        self.files()?.metadata(user, path).await
    }

    async fn list<P: AsRef<Path> + Send + Debug>(
        &self,
        user: &DefaultUser,
        path: P,
    ) -> Result<Vec<Fileinfo<PathBuf, Meta>>> {
        self.files()?.list(user, path).await
    }

    async fn get_into<'a, P, W: ?Sized>(
        &self,
        user: &DefaultUser,
        path: P,
        start_pos: u64,
        output: &'a mut W,
    ) -> Result<u64>
    where
        W: AsyncWrite + Unpin + Sync + Send,
        P: AsRef<Path> + Send + Debug,
    {
        match self.get(user, path, start_pos).await {
            Ok(file) => self.send(file, output).await,
            Err(error) => {
                self.shop.meter.refused();
                Err(error)
            }
        }
    }

    async fn get<P: AsRef<Path> + Send + Debug>(
        &self,
        user: &DefaultUser,
        path: P,
        start_pos: u64,
    ) -> Result<Box<dyn AsyncRead + Send + Sync + Unpin>> {
        self.files()?.get(user, path, start_pos).await
    }

    async fn put<P, R>(&self, _: &DefaultUser, _: R, _: P, _: u64) -> Result<u64>
    where
        P: AsRef<Path> + Send + Debug,
        R: AsyncRead + Send + Sync + Unpin + 'static,
    {
        read_only()
    }

    async fn del<P: AsRef<Path> + Send + Debug>(&self, _: &DefaultUser, _: P) -> Result<()> {
        read_only()
    }

    async fn mkd<P: AsRef<Path> + Send + Debug>(&self, _: &DefaultUser, _: P) -> Result<()> {
        read_only()
    }

    async fn rename<P: AsRef<Path> + Send + Debug>(&self, _: &DefaultUser, _: P, _: P) -> Result<()> {
        read_only()
    }

    async fn rmd<P: AsRef<Path> + Send + Debug>(&self, _: &DefaultUser, _: P) -> Result<()> {
        read_only()
    }

    async fn cwd<P: AsRef<Path> + Send + Debug>(&self, user: &DefaultUser, path: P) -> Result<()> {
        self.files()?.cwd(user, path).await
    }
}
