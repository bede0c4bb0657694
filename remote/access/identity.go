package access

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// Kind is how a peer showed who it is.
type Kind uint8

// The kinds, from what proves nothing to what proves most.
const (
	// Network is a peer that came over a network and showed nothing.
	Network Kind = iota
	// Loopback is a peer on this machine that showed nothing, and what runs in this process.
	Loopback
	// Token is a client with a token.
	Token
	// Certificate is a client or a task with a certificate.
	Certificate
)

var kindNames = [...]string{"network", "loopback", "token", "certificate"}

// String is the kind's name in policies.
func (k Kind) String() string { return kindNames[k] }

// Identity is who makes a call. Peers that showed nothing are told apart only by their kind.
type Identity struct {
	Kind Kind
	Name Name // nobody's for Network and Loopback
	// Claims are the groups that a signed token says its bearer is of.
	Claims []string
}

// Owns tells whether something that one identity made belongs to another: to the same name, however it was shown.
// All of those without a name on one side of the loopback interface are one.
func (i Identity) Owns(made Identity) bool {
	if i.Name != (Name{}) || made.Name != (Name{}) {
		return i.Name == made.Name
	}
	return i.Kind == made.Kind
}

// String is the identity in the words of a policy: client:alice, task:worker/1, loopback, network.
func (i Identity) String() string {
	if i.Name == (Name{}) {
		return i.Kind.String()
	}
	kind, rest, _ := strings.Cut(strings.TrimPrefix(i.Name.String(), scheme+"://"), "/")
	return kind + ":" + rest
}

// Peer is where a call comes from and what it shows.
type Peer struct {
	Address       net.Addr             // nil within the process
	TLS           *tls.ConnectionState // nil without encryption
	Authorization string               // the header of that name; empty if there is none
}

// From is the address, for messages.
func (p Peer) From() string {
	if p.Address == nil {
		return "this process"
	}
	return p.Address.String()
}

// local tells whether the peer is on this machine.
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

// Identify tells who a peer is. A token, if it shows one, decides: a proxy with a certificate of its own may so carry
// the calls of several clients. A token that does not hold is refused even where the certificate would do. tokens may
// be nil: then none is accepted. The error is UNAUTHENTICATED.
func Identify(p Peer, tokens *Tokens) (Identity, error) {
	i, _, err := identify(p, tokens)
	return i, err
}

// identify also tells until when it may be taken for granted; zero for no end.
func identify(p Peer, tokens *Tokens) (i Identity, until time.Time, err error) {
	if p.Authorization != "" {
		switch {
		case tokens == nil:
			return i, until, status.Errorf(status.Unauthenticated, "the call shows a token, and this server takes none: start it with --tokens or --jwt-key")
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

// ParseIdentity reads an identity in the words of a policy. by is the kind of a client's or a task's.
func ParseIdentity(text, by string, claims []string) (Identity, error) {
	k := Kind(slices.Index(kindNames[:], by))
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case text == Loopback.String():
		return Identity{Kind: Loopback}, nil
	case text == Network.String():
		return Identity{Kind: Network}, nil
	case by != Token.String() && by != Certificate.String():
		return Identity{}, status.InvalidArgumentf("%.100q is not how somebody shows a name: certificate and token are", by)
	}
	name, err := ParseName(scheme + "://" + kind + "/" + rest)
	if err != nil {
		return Identity{}, status.InvalidArgumentf("%.100q is no identity: client:NAME, task:JOB/INDEX, loopback and network are", text)
	}
	return Identity{Kind: k, Name: name, Claims: claims}, nil
}
