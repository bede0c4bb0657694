// Package trust implements the secret that the tasks of a cluster may share, and the proofs by which two tasks show each
// other that they know it. It does not use the network: package link exchanges the proofs, and package membership uses the
// gossip's keys.
//
// The secret itself is never sent or used directly: HKDF-SHA256 (RFC 5869) derives a key for each purpose. A proof is
// an HMAC-SHA256 over both ends' names and fresh nonces, and differs for the two ends, so it can be neither replayed
// nor reflected. It authenticates the opener of a connection. It does not protect what follows on that connection from
// an attacker that can modify packets; TLS does.
package trust
