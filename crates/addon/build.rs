//! Link arguments. On Linux the addon is never unmapped: a worker thread that ends would otherwise take code away from
//! under thread-local destructors that still have to run. On macOS the N-API symbols come from the host when it loads us.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("linux") => println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete"),
        Ok("macos") => println!("cargo:rustc-cdylib-link-arg=-Wl,-undefined,dynamic_lookup"),
        _ => {}
    }
}
