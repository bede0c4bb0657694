// Package trust has the secret that the tasks of a cluster may share, and the proofs by which two of them show each
// other that they know it. It knows no network: package link exchanges the proofs, package membership takes the
// gossip's keys.
//
// The secret itself is never sent, nor used as it is: HKDF-SHA256 (RFC 5869) derives a key for each purpose. A proof is
// an HMAC-SHA256 over both ends' names and fresh nonces, and differs for the two ends, so that it can be neither used
// again nor sent back. It shows who opened a connection. It does not protect what follows on that connection from
// somebody who can change its packets; TLS does.
package trust
