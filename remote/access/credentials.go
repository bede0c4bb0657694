package access

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// CredentialFiles says where the credentials of a server or a client are. All files are PEM.
type CredentialFiles struct {
	// Cert is the certificate, with those between it and the authority behind it. It carries a Name. A client that shows
	// a token instead has neither Cert nor Key.
	Cert string
	// Key is the certificate's key; nobody but its user may read it.
	Key string
	// CA has the certificates of the authorities that peers' certificates have to be issued by.
	CA string
}

// CredentialConfig is how credentials are used.
type CredentialConfig struct {
	CredentialFiles
	// Anonymous lets in clients without a certificate: something else, such as a token, has to tell who they are.
	Anonymous bool
	// Reloaded, if set, is told of every attempt to reload the files.
	Reloaded func(what string, err error)
	Log      *slog.Logger // nil: slog.Default()
}

// Credentials are a certificate, its key, and the authorities that are trusted, for mutual TLS 1.3. They are read
// again when a file changes. If the new files do not go together, as when one of them is written and the other is
// not, the old ones hold and the log tells why.
//
// New connections use the new files. Connections that exist go on, except those that were given to Watch and whose
// peer's certificate the new authorities do not vouch for: they are closed. A certificate that merely expires ends
// no connection.
//
// All methods may be called concurrently.
type Credentials struct {
	config CredentialConfig
	files  reloader
	now    atomic.Pointer[loaded]

	mu      sync.Mutex
	watched map[io.Closer]watchedConn
}

// loaded is what the files said at one time. It is immutable.
type loaded struct {
	pair  tls.Certificate
	roots *x509.CertPool
	name  Name
}

type watchedConn struct {
	chain []*x509.Certificate
	since time.Time
}

// LoadCredentials reads the files and watches them until Close. It fails with what is wrong with the first file that
// cannot be used: a key that others may read, a key of another certificate, a certificate without a Name, one that
// has expired, one that CA does not vouch for.
func LoadCredentials(c CredentialConfig) (*Credentials, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	k := &Credentials{config: c, watched: map[io.Closer]watchedConn{}}
	k.files = reloader{what: "credentials", paths: []string{c.Cert, c.Key, c.CA}, load: k.load, log: c.Log, told: c.Reloaded}
	if err := k.files.start(); err != nil {
		return nil, err
	}
	return k, nil
}

// Reload reads the files now. After an error, the credentials are those from before.
func (k *Credentials) Reload() error { return k.files.reload() }

// Close ends the watching of the files. What was given out goes on to work with the last credentials.
func (k *Credentials) Close() { k.files.close() }

// Name is whom the own certificate was issued to; nobody without one.
func (k *Credentials) Name() Name { return k.now.Load().name }

func (k *Credentials) load() error {
	l, err := loadFiles(k.config.CredentialFiles)
	if err != nil {
		return err
	}
	// The same lock as Watch's, so that a connection is checked against the new authorities either there or here.
	k.mu.Lock()
	k.now.Store(l)
	lost := k.distrustedLocked(l)
	k.mu.Unlock()
	for conn, why := range lost {
		k.config.Log.Warn("closing a connection: its peer's certificate is no longer trusted", "error", why)
		if err := conn.Close(); err != nil {
			k.config.Log.Debug("closing a connection", "error", err)
		}
	}
	return nil
}

// distrustedLocked are the watched connections whose peers would not be let in any more, each with the reason.
func (k *Credentials) distrustedLocked(l *loaded) map[io.Closer]error {
	lost := map[io.Closer]error{}
	for conn, w := range k.watched {
		if err := vouches(l.roots, w.chain, w.since, x509.ExtKeyUsageAny); err != nil {
			delete(k.watched, conn)
			lost[conn] = err
		}
	}
	return lost
}

// Watch closes conn when authorities are loaded that do not vouch for its peer's certificate, or at once if they
// were loaded during its handshake. Call forget when the connection ends.
func (k *Credentials) Watch(conn io.Closer, state tls.ConnectionState) (forget func(), err error) {
	if len(state.PeerCertificates) == 0 {
		return func() {}, nil
	}
	w := watchedConn{state.PeerCertificates, time.Now()}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := vouches(k.now.Load().roots, w.chain, w.since, x509.ExtKeyUsageAny); err != nil {
		return func() {}, err
	}
	k.watched[conn] = w
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.watched, conn)
	}, nil
}

func loadFiles(f CredentialFiles) (*loaded, error) {
	l := &loaded{}
	own := f.Cert != "" || f.Key != ""
	if own {
		if err := l.loadOwn(f); err != nil {
			return nil, err
		}
	}
	authorities, err := readFile("file of authorities", f.CA)
	if err != nil {
		return nil, err
	}
	if l.roots, err = parseRoots(authorities); err != nil {
		return nil, status.Errorf(status.FailedPrecondition, "%s: %v", f.CA, err)
	}
	if !own {
		return l, nil
	}
	if err := l.checkOwn(); err != nil {
		return nil, status.Errorf(status.FailedPrecondition, "%s: %v", f.Cert, err)
	}
	return l, nil
}

// loadOwn reads the certificate and its key.
func (l *loaded) loadOwn(f CredentialFiles) error {
	cert, err := readFile("certificate", f.Cert)
	if err != nil {
		return err
	}
	key, err := readSecret("key", f.Key)
	if err != nil {
		return err
	}
	if l.pair, err = parsePair(Pair{cert, key}); err != nil {
		return status.Errorf(status.FailedPrecondition, "%s and %s: %v", f.Cert, f.Key, err)
	}
	if l.name, err = NameOf(l.pair.Leaf); err != nil {
		return status.Errorf(status.FailedPrecondition, "%s: %v", f.Cert, err)
	}
	return nil
}

// checkOwn refuses a certificate that no peer with the same authorities would accept.
func (l *loaded) checkOwn() error {
	chain, err := parseChain(l.pair.Certificate)
	if err != nil {
		return err
	}
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if l.name.Client() == "" {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	for _, u := range usages {
		if err := vouches(l.roots, chain, time.Now(), u); err != nil {
			return err
		}
	}
	return nil
}

// parsePair checks that a key is the certificate's.
func parsePair(p Pair) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return pair, status.InvalidArgumentf("the certificate and the key do not go together: %v", err)
	}
	return pair, nil
}

// ParseCertificates reads the certificates of a PEM file. Anything else in it is an error.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, status.InvalidArgumentf("it has a %s, where certificates are expected", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, status.InvalidArgumentf("its certificate %d cannot be read: %v", len(all)+1, err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, status.InvalidArgumentf("it has no certificate (PEM)")
	}
	return all, nil
}

func parseRoots(text []byte) (*x509.CertPool, error) {
	all, err := ParseCertificates(text)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range all {
		if !c.IsCA {
			return nil, status.InvalidArgumentf("%s is not an authority's", describe(c))
		}
		pool.AddCert(c)
	}
	return pool, nil
}

func parseChain(der [][]byte) ([]*x509.Certificate, error) {
	chain := make([]*x509.Certificate, len(der))
	for i, b := range der {
		var err error
		if chain[i], err = x509.ParseCertificate(b); err != nil {
			return nil, status.InvalidArgumentf("certificate %d of the chain cannot be read: %v", i+1, err)
		}
	}
	return chain, nil
}

// vouches checks a peer's certificates at a time for one use. The error tells what is wrong with them.
func vouches(roots *x509.CertPool, chain []*x509.Certificate, at time.Time, use x509.ExtKeyUsage) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{use}})
	if err != nil {
		return status.Errorf(status.Unauthenticated, "%s is refused: %v", describe(chain[0]), err)
	}
	return nil
}

// Server is the configuration of the end that accepts, which speaks these ALPN protocols. A peer is let in if it has
// a certificate that the authorities of the moment vouch for as a client's, and that carries a Name. It stays valid
// when files are reloaded.
func (k *Credentials) Server(protocols ...string) *tls.Config {
	protocols = slices.Clone(protocols)
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return k.server(protocols), nil
		},
	}
}

// server is the configuration of one handshake.
func (k *Credentials) server(protocols []string) *tls.Config {
	l := k.now.Load()
	c := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   protocols,
		Certificates: []tls.Certificate{l.pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    l.roots,
		// A ticket would let its holder in after its certificate has expired or is no longer trusted.
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return nil // ClientAuth allows it, or not
			}
			_, err := NameOf(s.PeerCertificates[0])
			return err
		},
	}
	if k.config.Anonymous {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c
}

// Client is the configuration of the end that dials, for one connection: it has the authorities of this moment. The
// peer has to be a task, at one of the hosts that its certificate is for.
func (k *Credentials) Client(protocols ...string) *tls.Config {
	return k.client(protocols, func(peer Name) error {
		if peer.Job() == "" {
			return status.Errorf(status.Unauthenticated, "the server shows the certificate of %s, which is not a task's", peer)
		}
		return nil
	})
}

// ClientOf is Client for a connection to one task: another task at its address is refused.
func (k *Credentials) ClientOf(job string, index int, protocols ...string) *tls.Config {
	return k.client(protocols, func(peer Name) error {
		if !peer.IsTask(job, index) {
			return status.Errorf(status.Unauthenticated, "the server shows the certificate of %s, not that of %s", peer, TaskName(job, index))
		}
		return nil
	})
}

func (k *Credentials) client(protocols []string, check func(Name) error) *tls.Config {
	l := k.now.Load()
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: slices.Clone(protocols),
		RootCAs:    l.roots,
		// Not Certificates: of those, Go leaves out the ones whose authority the server did not ask for, and the
		// server could then only say that there is none.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &l.pair, nil },
		VerifyConnection: func(s tls.ConnectionState) error {
			name, err := NameOf(s.PeerCertificates[0])
			if err != nil {
				return err
			}
			return check(name)
		},
	}
}
