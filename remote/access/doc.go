// Package access decides who may connect and what they may do. It contains the names that certificates carry, the certificates and keys of
// a server or client, and the authority that issues them. It knows neither links nor actors: package port does the handshakes with its TLS
// configurations.
package access
