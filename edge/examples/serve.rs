//! Serves a folder on a free port of this host and copies from it: `cargo run --example serve --
//! FOLDER`.

use farline::node::Anonymous;
use farline::{Client, Node};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("give a folder")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let node = Node::builder(folder)
            .listen(([127, 0, 0, 1], 0).into())
            .anonymous(Anonymous::Read)
            .bind()
            .await?;
        let url = format!("farline://{}/", node.address());
        println!("serving {url}");
        let copies = tempfile::tempdir()?;
        let copying = Client::new().copy(&url, copies.path())?.recursive(true).start()?;
        tokio::select! {
            ended = node.run() => ended?,
            outcome = copying => println!("{} files came back", outcome?.files),
        }
        Ok(())
    })
}
