/**
 * Certificates for a sandbox with TLS, made by openssl when it starts: a CA of its own and one certificate that all its
 * servers use. They are worth nothing elsewhere and vanish with the sandbox.
 */
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { KeylaneError } from "../errors.js";

const run = promisify(execFile);

/** What a sandbox with TLS shall present. */
export interface SandboxTlsOptions {
  /** Names and addresses that the certificate is for (default `localhost`, `127.0.0.1` and `::1`). */
  readonly names?: readonly string[] | undefined;
  /** Demand a certificate of clients too; `SandboxTls.cert` and `key` then serve as one (default false). */
  readonly clientCertificates?: boolean | undefined;
}

/** A sandbox's certificates, PEM. */
export interface SandboxTls {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** A DNS name that the certificate is for, undefined when it has addresses only. */
  readonly servername: string | undefined;
  readonly files: { readonly ca: string; readonly cert: string; readonly key: string };
  readonly clientCertificates: boolean;
}

/**
 * Makes the certificates in `folder`.
 * @throws KeylaneError `KEYLANE_ERR_SANDBOX` when openssl is missing or fails.
 */
export async function makeCertificates(folder: string, options: SandboxTlsOptions): Promise<SandboxTls> {
  const names = options.names ?? ["localhost", "127.0.0.1", "::1"];
  const at = (name: string): string => join(folder, name);
  const files = { ca: at("ca.pem"), cert: at("cert.pem"), key: at("key.pem") };
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-sha256"];
  const alternatives = names.map((name) => (isIP(name) === 0 ? `DNS:${name}` : `IP:${name}`)).join(",");
  writeFileSync(at("names.cnf"), `subjectAltName=${alternatives}\n`);
  const subject = ["-subj", "/CN=keylane sandbox"];
  const sign = ["-CA", files.ca, "-CAkey", at("ca-key.pem"), "-CAcreateserial", "-sha256"];
  try {
    await run("openssl", [
      "req",
      "-x509",
      ...curve,
      "-days",
      "2",
      "-keyout",
      at("ca-key.pem"),
      "-out",
      files.ca,
      "-subj",
      "/CN=keylane sandbox CA",
    ]);
    await run("openssl", ["req", ...curve, "-keyout", files.key, "-out", at("request.pem"), ...subject]);
    await run("openssl", [
      "x509",
      "-req",
      "-in",
      at("request.pem"),
      ...sign,
      "-days",
      "2",
      "-extfile",
      at("names.cnf"),
      "-out",
      files.cert,
    ]);
  } catch (cause) {
    const absent = (cause as NodeJS.ErrnoException).code === "ENOENT";
    const text = absent
      ? "TLS needs openssl; run: sudo apt-get install -y openssl"
      : `openssl failed: ${(cause as Error).message}`;
    throw new KeylaneError("KEYLANE_ERR_SANDBOX", text, { cause });
  }
  return {
    ca: readFileSync(files.ca, "utf8"),
    cert: readFileSync(files.cert, "utf8"),
    key: readFileSync(files.key, "utf8"),
    servername: names.find((name) => isIP(name) === 0),
    files,
    clientCertificates: options.clientCertificates ?? false,
  };
}
