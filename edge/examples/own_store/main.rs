//! Brings a store of its own: copies a folder into it, lets a node serve it, and copies from there:
//! `cargo run --example own_store -- FOLDER DESTINATION`.

mod objects;

use farline::node::Anonymous;
use farline::{Client, Node};
use objects::Objects;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(folder), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("give a folder and a destination".into());
    };
    let objects = Objects::default();
    let client = Client::new().store(objects.driver())?;
    let stored = client.copy(folder, "objects:run7/")?.recursive(true).start()?.wait()?.whole()?;
    println!("{} files are objects", stored.files);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // A folder with nothing to see: what this node has are the objects.
        let files = tempfile::tempdir()?;
        let node = Node::builder(files.path())
            .listen(([127, 0, 0, 1], 0).into())
            .anonymous(Anonymous::Read)
            .store(objects.driver())
            .bind()
            .await?;
        let url = format!("farline://{}/run7?store=objects", node.address());
        let copying = Client::new().copy(&url, to)?.recursive(true).start()?;
        tokio::select! {
            ended = node.run() => ended?,
            outcome = copying => {
                let outcome = outcome?;
                println!("{} files came back, verified: {}", outcome.files, outcome.verified);
            }
        }
        Ok(())
    })
}
