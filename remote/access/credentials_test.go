package access

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// authority returns an authority whose certificate is valid for an hour.
func authority(t *testing.T) (*Authority, []byte) {
	t.Helper()
	a, p, err := NewAuthority("test", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return a, p.Cert
}

func (a *Authority) mustIssue(t *testing.T, name Name, until time.Duration, hosts ...string) Pair {
	t.Helper()
	p, err := a.Issue(Request{Name: name, Hosts: hosts, Until: time.Now().Add(until)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// write writes credentials into a folder.
func write(t *testing.T, dir string, p Pair, ca []byte) CredentialFiles {
	t.Helper()
	f := CredentialFiles{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")}
	for path, b := range map[string][]byte{f.Cert: p.Cert, f.Key: p.Key, f.CA: ca} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func load(t *testing.T, f CredentialFiles) *Credentials {
	t.Helper()
	k, err := LoadCredentials(CredentialConfig{CredentialFiles: f, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// shake does a handshake over a loopback connection and returns both ends' errors. The client waits for a byte from the server: with TLS
// 1.3, it learns only then that it was refused.
func shake(t *testing.T, server, client *tls.Config) (atServer, atClient error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			accepted <- err
			return
		}
		defer c.Close()
		s := tls.Server(c, server)
		if err = s.Handshake(); err == nil {
			_, err = s.Write([]byte{1})
		}
		accepted <- err
	}()
	client = client.Clone()
	if client.ServerName == "" {
		client.ServerName = "127.0.0.1"
	}
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(10 * time.Second))
	c := tls.Client(raw, client)
	if atClient = c.Handshake(); atClient == nil {
		_, atClient = io.ReadFull(c, make([]byte, 1))
	}
	return <-accepted, atClient
}

func contains(err error, want string) bool {
	if want == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), want)
}

// TestClientsAreRefused checks which clients a server admits, and that it tells the others why not.
func TestClientsAreRefused(t *testing.T) {
	ca, roots := authority(t)
	foreign, _ := authority(t)
	server := load(t, write(t, t.TempDir(), ca.mustIssue(t, TaskName("ps", 0), time.Minute, "127.0.0.1"), roots))

	nameless, err := issue(&x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "alice"}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Minute), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca)
	if err != nil {
		t.Fatal(err)
	}
	serverOnly, err := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "worker"}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Minute), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		URIs: []*url.URL{{Scheme: "troupe", Host: "task", Path: "/worker/0"}}}, ca)
	if err != nil {
		t.Fatal(err)
	}
	// A client that acts as its own authority: it signs another certificate with its leaf.
	leaf := ca.mustIssue(t, ClientName("alice"), time.Minute)
	alice, err := parsePair(leaf)
	if err != nil {
		t.Fatal(err)
	}
	minted := (&Authority{cert: alice.Leaf, key: alice.PrivateKey}).mustIssue(t, TaskName("ps", 0), 30*time.Second)
	minted.Cert = append(minted.Cert, leaf.Cert...)

	for name, c := range map[string]struct {
		pair               Pair
		atServer, atClient string
	}{
		"client":             {ca.mustIssue(t, ClientName("alice"), time.Minute), "", ""},
		"task":               {ca.mustIssue(t, TaskName("worker", 1), time.Minute), "", ""},
		"none":               {Pair{}, "didn't provide a certificate", "certificate required"},
		"expired":            {ca.mustIssue(t, ClientName("alice"), -time.Minute), "expired", "expired certificate"},
		"of another CA":      {foreign.mustIssue(t, ClientName("alice"), time.Minute), "unknown authority", "unknown certificate authority"},
		"issued by a client": {minted, "unknown authority", "unknown certificate authority"},
		"of a mere server":   {serverOnly, "incompatible key usage", "bad certificate"},
		"without a name":     {nameless, "must carry a URI such as troupe://", "bad certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
			if c.pair.Cert != nil {
				pair, err := tls.X509KeyPair(c.pair.Cert, c.pair.Key)
				if err != nil {
					t.Fatal(err)
				}
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			}
			atServer, atClient := shake(t, server.Server(), config)
			if !contains(atServer, c.atServer) || !contains(atClient, c.atClient) {
				t.Errorf("the server says %v, the client %v; want %q and %q", atServer, atClient, c.atServer, c.atClient)
			}
		})
	}
	t.Run("TLS 1.2", func(t *testing.T) {
		atServer, _ := shake(t, server.Server(), &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true})
		if !contains(atServer, "unsupported versions") {
			t.Errorf("the server says %v", atServer)
		}
	})
}

// TestServersAreRefused is the other side: which servers a client accepts as tasks.
func TestServersAreRefused(t *testing.T) {
	ca, roots := authority(t)
	foreign, foreignRoots := authority(t)
	client := load(t, write(t, t.TempDir(), ca.mustIssue(t, ClientName("alice"), time.Minute), roots))
	both := append(roots, foreignRoots...)

	for name, c := range map[string]struct {
		by    *Authority
		name  Name
		until time.Duration
		host  string
		want  string
	}{
		"the task":       {ca, TaskName("ps", 1), time.Minute, "127.0.0.1", ""},
		"any task of ps": {ca, JobName("ps"), time.Minute, "127.0.0.1", ""},
		"another index":  {ca, TaskName("ps", 0), time.Minute, "127.0.0.1", "troupe://task/ps/0, not that of troupe://task/ps/1"},
		"a worker":       {ca, TaskName("worker", 1), time.Minute, "127.0.0.1", "troupe://task/worker/1, not that of"},
		"a wrong host":   {ca, TaskName("ps", 1), time.Minute, "127.0.0.2", "valid for 127.0.0.2, not 127.0.0.1"},
		"no host":        {ca, TaskName("ps", 1), time.Minute, "elsewhere.example", "127.0.0.1"},
		"another CA's":   {foreign, TaskName("ps", 1), time.Minute, "127.0.0.1", "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			server := load(t, write(t, t.TempDir(), c.by.mustIssue(t, c.name, c.until, c.host), both))
			if _, err := shake(t, server.Server(), client.ClientOf("ps", 1)); !contains(err, c.want) {
				t.Errorf("the client says %v, want %q", err, c.want)
			}
		})
	}
	serve := func(p Pair) *tls.Config {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}
	}
	t.Run("expired", func(t *testing.T) {
		if _, err := shake(t, serve(ca.mustIssue(t, TaskName("ps", 1), -time.Minute, "127.0.0.1")), client.Client()); !contains(err, "expired") {
			t.Errorf("the client says %v", err)
		}
	})
	t.Run("a client's certificate", func(t *testing.T) {
		if _, err := shake(t, serve(ca.mustIssue(t, ClientName("mallory"), time.Minute, "127.0.0.1")), client.Client()); !contains(err, "incompatible key usage") {
			t.Errorf("the client says %v", err)
		}
	})
}

// TestUnusableFiles checks that unusable files are rejected at the start, with the reason.
func TestUnusableFiles(t *testing.T) {
	ca, roots := authority(t)
	good := ca.mustIssue(t, TaskName("ps", 0), time.Minute, "127.0.0.1")
	for name, c := range map[string]struct {
		pair  Pair
		ca    []byte
		spoil func(CredentialFiles) error
		want  string
	}{
		"a key for everybody": {good, roots, func(f CredentialFiles) error { return os.Chmod(f.Key, 0o644) }, "chmod 600"},
		"no key":              {good, roots, func(f CredentialFiles) error { return os.Remove(f.Key) }, "the key cannot be read"},
		"a folder": {good, roots, func(f CredentialFiles) error {
			return errors.Join(os.Remove(f.CA), os.Mkdir(f.CA, 0o700))
		}, "not a regular file"},
		"another key":       {Pair{good.Cert, ca.mustIssue(t, TaskName("ps", 0), time.Minute).Key}, roots, nil, "do not go together"},
		"expired":           {ca.mustIssue(t, TaskName("ps", 0), -time.Minute), roots, nil, "expired"},
		"another authority": {good, func() []byte { _, other := authority(t); return other }(), nil, "unknown authority"},
		"no authority":      {good, good.Cert, nil, "is not an authority's"},
		"an empty CA file":  {good, nil, nil, "no certificate"},
		"a key as CA":       {good, good.Key, nil, "PRIVATE KEY"},
		"a huge CA file":    {good, make([]byte, maxFile+1), nil, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			f := write(t, t.TempDir(), c.pair, c.ca)
			if c.spoil != nil {
				if err := c.spoil(f); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := LoadCredentials(CredentialConfig{CredentialFiles: f, Log: quiet}); !contains(err, c.want) {
				t.Errorf("LoadCredentials: %v, want %q", err, c.want)
			}
		})
	}
}

// TestReloadTakesEffect renews a certificate and then changes the authority, with configurations handed out before.
func TestReloadTakesEffect(t *testing.T) {
	ca, roots := authority(t)
	dir := t.TempDir()
	files := write(t, dir, ca.mustIssue(t, TaskName("ps", 0), time.Minute, "127.0.0.1"), roots)
	server := load(t, files)
	client := load(t, write(t, t.TempDir(), ca.mustIssue(t, ClientName("alice"), time.Minute), roots))
	config := server.Server()
	if _, err := shake(t, config, client.Client()); err != nil {
		t.Fatal(err)
	}

	// The key is written, the certificate not yet: the old pair stays in use.
	renewed := ca.mustIssue(t, TaskName("ps", 1), time.Minute, "127.0.0.1")
	if err := os.WriteFile(files.Key, renewed.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := server.Reload(); !contains(err, "do not go together") {
		t.Fatalf("Reload of half a pair: %v", err)
	}
	if _, err := shake(t, config, client.ClientOf("ps", 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Cert, renewed.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := server.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := shake(t, config, client.ClientOf("ps", 1)); err != nil {
		t.Fatal(err)
	}

	other, otherRoots := authority(t)
	write(t, dir, other.mustIssue(t, TaskName("ps", 1), time.Minute, "127.0.0.1"), otherRoots)
	if err := server.Reload(); err != nil {
		t.Fatal(err)
	}
	if err, _ := shake(t, config, &tls.Config{InsecureSkipVerify: true, GetClientCertificate: client.Client().GetClientCertificate}); !contains(err, "unknown authority") {
		t.Errorf("a certificate of the former authority: %v", err)
	}
}

type closed chan struct{}

func (c closed) Close() error { close(c); return nil }

// TestDistrustEndsConnections checks that a renewed certificate closes no connection, and that another authority does.
func TestDistrustEndsConnections(t *testing.T) {
	ca, roots := authority(t)
	dir := t.TempDir()
	write(t, dir, ca.mustIssue(t, TaskName("ps", 0), time.Minute), roots)
	server := load(t, write(t, dir, ca.mustIssue(t, TaskName("ps", 0), time.Minute), roots))
	alice, err := parsePair(ca.mustIssue(t, ClientName("alice"), time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{alice.Leaf}}
	conn, ended := make(closed), make(closed)
	if _, err := server.Watch(conn, state); err != nil {
		t.Fatal(err)
	}
	forget, err := server.Watch(ended, state)
	if err != nil {
		t.Fatal(err)
	}
	forget()

	write(t, dir, ca.mustIssue(t, TaskName("ps", 0), time.Minute), roots)
	if err := server.Reload(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-conn:
		t.Fatal("a renewed certificate ended a connection")
	default:
	}
	other, otherRoots := authority(t)
	write(t, dir, other.mustIssue(t, TaskName("ps", 0), time.Minute), otherRoots)
	if err := server.Reload(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-conn:
	default:
		t.Error("a connection whose peer is no longer trusted goes on")
	}
	select {
	case <-ended:
		t.Error("a connection that had ended was closed again")
	default:
	}
	if _, err := server.Watch(make(closed), state); !contains(err, "unknown authority") {
		t.Errorf("Watch of a connection that is no longer trusted: %v", err)
	}
}

// TestChangedFilesAreNoticed checks that a change is loaded without a request, and that a broken state of the files is tried once.
func TestChangedFilesAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a, p, err := NewAuthority("test", time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var attempts []error
		files := write(t, dir, a.mustIssue(t, TaskName("ps", 0), time.Minute), p.Cert)
		k, err := LoadCredentials(CredentialConfig{CredentialFiles: files, Log: quiet, Reloaded: func(_ string, err error) { attempts = append(attempts, err) }})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		pass := func() {
			time.Sleep(3 * pollInterval)
			synctest.Wait()
		}
		pass()
		if len(attempts) > 0 {
			t.Fatalf("files that did not change were loaded again: %v", attempts)
		}
		if err := os.WriteFile(files.Cert, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		pass()
		if len(attempts) != 1 || attempts[0] == nil {
			t.Fatalf("a broken file was tried as follows: %v", attempts)
		}
		write(t, dir, a.mustIssue(t, TaskName("ps", 1), time.Minute), p.Cert)
		pass()
		if n := len(attempts); attempts[n-1] != nil || !k.Name().IsTask("ps", 1) {
			t.Fatalf("after the change the name is %s: %v", k.Name(), attempts)
		}
	})
}

// TestCertificatesThatExpire checks that the log says once a day that a certificate expires: in its last month or, if its life is short, in
// its last third. It stops once the certificate is renewed.
func TestCertificatesThatExpire(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name      string
		life      time.Duration
		authority time.Duration
		quiet     time.Duration // time until the first warning
	}{
		{"a year", 365 * day, 3650 * day, 335 * day},
		{"a week", 7 * day, 3650 * day, 112 * time.Hour},
		{"an authority that ends before", 100 * day, 100 * day, 70 * day},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				a, p, err := NewAuthority("test", time.Now().Add(c.authority))
				if err != nil {
					t.Fatal(err)
				}
				files := write(t, dir, a.mustIssue(t, TaskName("ps", 0), c.life), p.Cert)
				k := &Credentials{config: CredentialConfig{CredentialFiles: files, Log: slog.New(slog.NewTextHandler(&log, nil))}, watched: map[io.Closer]watchedConn{}}
				if err := k.load(); err != nil {
					t.Fatal(err)
				}
				said := func() int {
					k.warn()
					return strings.Count(log.String(), "level=WARN msg=\"the certificate expires soon") + strings.Count(log.String(), "level=ERROR msg=\"the certificate has expired")
				}
				time.Sleep(c.quiet - time.Hour)
				if n := said(); n != 0 {
					t.Fatalf("the log warns after %v: %s", c.quiet-time.Hour, log.String())
				}
				time.Sleep(2 * time.Hour)
				for range 2 {
					if said() != 1 {
						t.Fatalf("the log does not warn once: %s", log.String())
					}
				}
				if v := k.Validity(); ExpiryWarning(v.From.UnixNano(), v.Until.UnixNano(), time.Now()) == "" {
					t.Error("there is no warning for people")
				}
				time.Sleep(day)
				if n := said(); n != 2 {
					t.Errorf("the log has warned %d times after a day", n)
				}
				renewed, ca, err := NewAuthority("test", time.Now().Add(3650*day))
				if err != nil {
					t.Fatal(err)
				}
				write(t, dir, renewed.mustIssue(t, TaskName("ps", 0), 365*day), ca.Cert)
				if err := k.load(); err != nil {
					t.Fatal(err)
				}
				if n := said(); n != 2 {
					t.Errorf("the log warns of a new certificate: %s", log.String())
				}
				time.Sleep(366 * day)
				if said(); !strings.Contains(log.String(), "has expired") {
					t.Errorf("the log does not say that the certificate has expired: %s", log.String())
				}
			})
		})
	}
}

// TestLoadedCertificateThatExpires checks that the log warns as soon as a certificate is loaded that expires soon.
func TestLoadedCertificateThatExpires(t *testing.T) {
	a, ca := authority(t)
	files := write(t, t.TempDir(), a.mustIssue(t, TaskName("ps", 0), time.Second), ca)
	var log strings.Builder
	k, err := LoadCredentials(CredentialConfig{CredentialFiles: files, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	k.Close()
	if !strings.Contains(log.String(), "the certificate expires soon") || !strings.Contains(log.String(), files.Cert) {
		t.Errorf("the log says %q", log.String())
	}
}
