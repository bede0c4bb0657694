package access

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// Kind is how a peer identified itself.
type Kind uint8

// The kinds, from the weakest proof to the strongest.
const (
	// Network is a peer that connected over a network without credentials.
	Network Kind = iota
	// Loopback is a peer on this machine without credentials, or code in this process.
	Loopback
	// Token is a client with a token.
	Token
	// Certificate is a client or a task with a certificate.
	Certificate
)

var kindNames = [...]string{"network", "loopback", "token", "certificate"}

// String returns the kind's name in policies.
func (k Kind) String() string { return kindNames[k] }

// Identity is the identity of a caller. Peers without credentials differ only by their kind.
type Identity struct {
	Kind Kind
	Name Name // nobody's for Network and Loopback
	// Claims are the groups that a signed token lists for its bearer.
	Claims []string
}

// Owns reports whether what the identity made has created belongs to i. It does if the names are the same, however they were proven.
// Identities without a name on the same side of the loopback interface count as one.
func (i Identity) Owns(made Identity) bool {
	if i.Name != (Name{}) || made.Name != (Name{}) {
		return i.Name == made.Name
	}
	return i.Kind == made.Kind
}

// String returns the identity in the words of a policy: client:alice, task:worker/1, loopback, network.
func (i Identity) String() string {
	if i.Name == (Name{}) {
		return i.Kind.String()
	}
	kind, rest, _ := strings.Cut(strings.TrimPrefix(i.Name.String(), scheme+"://"), "/")
	return kind + ":" + rest
}

// Peer is the origin of a call and the credentials that it presents.
type Peer struct {
	Address       net.Addr             // nil within the process
	TLS           *tls.ConnectionState // nil without encryption
	Authorization string               // the Authorization header; empty if there is none
}

// From returns the address, for messages.
func (p Peer) From() string {
	if p.Address == nil {
		return "this process"
	}
	return p.Address.String()
}

// local reports whether the peer is on this machine.
func (p Peer) local() bool {
	if p.Address == nil {
		return true
	}
	switch a := p.Address.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// Identify returns the identity of a peer. A token takes precedence over a certificate: a proxy with its own certificate can thus forward
// the calls of several clients. An invalid token is rejected even if the certificate would suffice. With nil tokens, none is accepted. The
// error is UNAUTHENTICATED.
func Identify(p Peer, tokens *Tokens) (Identity, error) {
	i, _, err := identify(p, tokens)
	return i, err
}

// identify also returns until when the identity holds; zero means indefinitely.
func identify(p Peer, tokens *Tokens) (i Identity, until time.Time, err error) {
	if p.Authorization != "" {
		switch {
		case tokens == nil:
			return i, until, status.Errorf(status.Unauthenticated, "the call has a token, but this server accepts none: start it with --tokens or --jwt-key")
		case p.TLS == nil && !p.local():
			return i, until, status.Errorf(status.Unauthenticated, "a token is refused over an unencrypted connection from %v: others can read it. Connect with TLS, and replace the token", p.Address)
		}
		return tokens.identify(p.Authorization)
	}
	if p.TLS != nil && len(p.TLS.PeerCertificates) > 0 {
		name, err := NameOf(p.TLS.PeerCertificates[0])
		return Identity{Kind: Certificate, Name: name}, until, err
	}
	if p.local() {
		return Identity{Kind: Loopback}, until, nil
	}
	return Identity{Kind: Network}, until, nil
}

// ParseIdentity parses an identity in the words of a policy. by is the kind of a client or a task.
func ParseIdentity(text, by string, claims []string) (Identity, error) {
	k := Kind(slices.Index(kindNames[:], by))
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case text == Loopback.String():
		return Identity{Kind: Loopback}, nil
	case text == Network.String():
		return Identity{Kind: Network}, nil
	case by != Token.String() && by != Certificate.String():
		return Identity{}, status.InvalidArgumentf("unknown authentication method %.100q: use certificate or token", by)
	}
	name, err := ParseName(scheme + "://" + kind + "/" + rest)
	if err != nil {
		return Identity{}, status.InvalidArgumentf("invalid identity %.100q: use client:NAME, task:JOB/INDEX, loopback or network", text)
	}
	return Identity{Kind: k, Name: name, Claims: claims}, nil
}
