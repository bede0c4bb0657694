package access

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// CredentialFiles are the files with the credentials of a server or a client, all PEM.
type CredentialFiles struct {
	// Cert is the certificate, followed by those between it and the authority. It carries a Name. A client that uses a token instead has
	// neither Cert nor Key.
	Cert string
	// Key is the certificate's key; only its user may read it.
	Key string
	// CA has the certificates of the authorities that must have issued peers' certificates.
	CA string
}

// CredentialConfig describes credentials and their use.
type CredentialConfig struct {
	CredentialFiles
	// Anonymous admits clients without a certificate: something else, such as a token, must identify them.
	Anonymous bool
	// Reloaded, if set, is called after every attempt to reload the files.
	Reloaded func(what string, err error)
	Log      *slog.Logger // nil: slog.Default()
}

// Credentials are a certificate, its key, and the trusted authorities, for mutual TLS 1.3. They are reloaded when a file changes. If the
// new files do not match, for example because only one of them has been written yet, the old ones stay in use and the log says why.
//
// New connections use the new files. Existing connections continue, except those passed to Watch whose peer's certificate the new
// authorities do not vouch for: they are closed. The expiry of a certificate closes no connection.
//
// The methods of Credentials are safe for concurrent use.
type Credentials struct {
	config CredentialConfig
	files  reloader
	now    atomic.Pointer[loaded]

	warned time.Time // when the log last said that the certificate expires

	mu      sync.Mutex
	watched map[io.Closer]watchedConn
}

// loaded is what the files said at one time. It is immutable.
type loaded struct {
	pair  tls.Certificate
	roots *x509.CertPool
	name  Name
	valid Validity
}

// Validity is the period in which a certificate is accepted.
type Validity struct {
	From, Until time.Time // both zero without a certificate
}

// The log warns once per warnAgain about a certificate that expires within warnWithin. For short-lived certificates it warns in the last
// third of their life.
const (
	warnWithin = 30 * 24 * time.Hour
	warnAgain  = 24 * time.Hour
)

// EndsSoon reports whether it is time to renew the certificate: in its last 30 days, or in the last third of a shorter life.
func (v Validity) EndsSoon(now time.Time) bool {
	return !v.Until.IsZero() && v.Until.Sub(now) < min(warnWithin, v.Until.Sub(v.From)/3)
}

type watchedConn struct {
	chain []*x509.Certificate
	since time.Time
}

// LoadCredentials reads the files and watches them until Close. Its error describes the first file that cannot be used: a key that others
// may read, a key of another certificate, a certificate without a Name, an expired one, or one that CA does not vouch for.
func LoadCredentials(c CredentialConfig) (*Credentials, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	k := &Credentials{config: c, watched: map[io.Closer]watchedConn{}}
	k.files = reloader{what: "credentials", paths: []string{c.Cert, c.Key, c.CA}, load: k.load, log: c.Log, told: c.Reloaded, looked: k.warn}
	if err := k.files.start(); err != nil {
		return nil, err
	}
	return k, nil
}

// warn logs once a day that the certificate expires soon, or has expired. Only the reloader calls it.
func (k *Credentials) warn() {
	v, now := k.Validity(), time.Now()
	if !v.EndsSoon(now) {
		k.warned = time.Time{}
		return
	}
	if now.Sub(k.warned) < warnAgain {
		return
	}
	k.warned = now
	left := v.Until.Sub(now)
	if left <= 0 {
		k.config.Log.Error("the certificate has expired: new connections fail; replace the files (troupe certs init --renew)", "file", k.config.Cert, "until", v.Until)
		return
	}
	k.config.Log.Warn("the certificate expires soon: replace the files (troupe certs init --renew)", "file", k.config.Cert, "until", v.Until, "left", left.Round(time.Minute))
}

// Reload reads the files now. After an error, the previous credentials stay in use.
func (k *Credentials) Reload() error { return k.files.reload() }

// Close stops watching the files. Configurations handed out before keep working with the last credentials.
func (k *Credentials) Close() { k.files.close() }

// Name returns the name that the own certificate was issued to; nobody without a certificate.
func (k *Credentials) Name() Name { return k.now.Load().name }

// Validity returns the period in which the own certificate is accepted: until the first of its chain expires, the authority included.
func (k *Credentials) Validity() Validity { return k.now.Load().valid }

func (k *Credentials) load() error {
	l, err := loadFiles(k.config.CredentialFiles)
	if err != nil {
		return err
	}
	// Watch takes the same lock, so a connection is checked against the new authorities either there or here.
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

// distrustedLocked returns the watched connections whose peers would no longer be admitted, each with the reason.
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

// Watch closes conn when authorities are loaded that do not vouch for its peer's certificate. It fails if they were loaded during conn's
// handshake. Call forget when the connection ends.
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

// checkOwn rejects a certificate that no peer with the same authorities would accept.
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
	l.valid = validity(l.roots, chain)
	return nil
}

// parsePair parses a certificate and its key and checks that they match.
func parsePair(p Pair) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return pair, status.InvalidArgumentf("the certificate and the key do not go together: %v", err)
	}
	return pair, nil
}

// ParseCertificates parses the certificates of a PEM file. Anything else in the file is an error.
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

// ExpiryWarning returns a warning if a certificate of this validity, in nanoseconds since 1970, expires soon or has expired. It is empty
// for others, and for no certificate (until is 0).
func ExpiryWarning(from, until int64, now time.Time) string {
	v := Validity{time.Unix(0, from), time.Unix(0, until)}
	switch at := v.Until.UTC().Format(time.RFC3339); {
	case until == 0 || !v.EndsSoon(now):
		return ""
	case now.After(v.Until):
		return "its certificate has expired, at " + at + ": new connections fail"
	default:
		return "its certificate expires in " + duration(v.Until.Sub(now)) + ", at " + at
	}
}

// duration formats d for people.
func duration(d time.Duration) string {
	if d >= 48*time.Hour {
		return strconv.Itoa(int(d/(24*time.Hour))) + " days"
	}
	return d.Round(time.Minute).String()
}

// vouches checks a peer's certificates at a given time for one use. The error says what is wrong with them.
func vouches(roots *x509.CertPool, chain []*x509.Certificate, at time.Time, use x509.ExtKeyUsage) error {
	if _, err := verify(roots, chain, at, use); err != nil {
		return status.Errorf(status.Unauthenticated, "%s is refused: %v", describe(chain[0]), err)
	}
	return nil
}

// verify returns the chains from a certificate to an authority.
func verify(roots *x509.CertPool, chain []*x509.Certificate, at time.Time, use x509.ExtKeyUsage) ([][]*x509.Certificate, error) {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	return chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{use}})
}

// validity returns the validity of the longest accepted chain to an authority.
func validity(roots *x509.CertPool, chain []*x509.Certificate) Validity {
	v := Validity{From: chain[0].NotBefore}
	ways, err := verify(roots, chain, time.Now(), x509.ExtKeyUsageAny)
	if err != nil { // it has just expired
		v.Until = chain[0].NotAfter
	}
	for _, way := range ways {
		until := slices.MinFunc(way, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
		if until.After(v.Until) {
			v.Until = until
		}
	}
	return v
}

// Server returns the configuration of the accepting end, which speaks the given ALPN protocols. It admits a peer whose certificate carries
// a Name and is vouched for, as a client's, by the current authorities. The configuration stays valid when files are reloaded.
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

// server returns the configuration of one handshake.
func (k *Credentials) server(protocols []string) *tls.Config {
	l := k.now.Load()
	c := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   protocols,
		Certificates: []tls.Certificate{l.pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    l.roots,
		// A ticket would admit its holder after its certificate has expired or is no longer trusted.
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return nil // whether that is allowed is up to ClientAuth
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

// Client returns the configuration of the dialling end for one connection, with the current authorities. The peer must be a task, at one of
// the hosts that its certificate is for.
func (k *Credentials) Client(protocols ...string) *tls.Config {
	return k.client(protocols, func(peer Name) error {
		if peer.Job() == "" {
			return status.Errorf(status.Unauthenticated, "the server shows the certificate of %s, which is not a task's", peer)
		}
		return nil
	})
}

// ClientOf is Client for a connection to one task: any other task at its address is rejected.
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
		// Not Certificates: Go omits those whose authority the server did not ask for, and the server could then only report that there is none.
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
