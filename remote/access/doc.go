// Package access says who may come in and what they may do. It has the names that certificates carry, the
// certificates and keys of a server or client, and the authority that issues them. It knows neither links nor
// actors: the port shakes hands with what it gives.
package access
