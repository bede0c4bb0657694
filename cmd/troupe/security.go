package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
)

// tlsFlags are the files of an identity.
type tlsFlags struct{ cert, key, ca string }

func (f *tlsFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.cert, "tls-cert", "", "file with the certificate (PEM); with --tls-key and --tls-ca, connections are encrypted and both ends identified")
	flags.StringVar(&f.key, "tls-key", "", "file with the certificate's key (PEM)")
	flags.StringVar(&f.ca, "tls-ca", "", "file with the certificates of the authorities that are trusted (PEM)")
}

// load reads the files; nil if none is given. c says how they are used.
func (f *tlsFlags) load(c access.CredentialConfig) (*access.Credentials, error) {
	if *f == (tlsFlags{}) {
		return nil, nil //nolint:nilnil // no flags, no credentials
	}
	if f.cert == "" || f.key == "" || f.ca == "" {
		return nil, usage(errors.New("--tls-cert, --tls-key and --tls-ca belong together: give all three"))
	}
	c.CredentialFiles = access.CredentialFiles{Cert: f.cert, Key: f.key, CA: f.ca}
	return access.LoadCredentials(c)
}

// clientFlags are the identity of a command that asks a server.
type clientFlags struct {
	tlsFlags
	token string
}

func (f *clientFlags) add(flags *pflag.FlagSet) {
	f.tlsFlags.add(flags)
	flags.StringVar(&f.token, "token-file", "", "file with a token to show (troupe token new), over TLS or to this machine; with --tls-ca, no certificate is needed")
}

// load gives the options of the client, and what releases them.
func (f *clientFlags) load(log *slog.Logger) (opts []client.Option, release func(), err error) {
	var credentials *access.Credentials
	var token *access.TokenFile
	release = func() {
		if credentials != nil {
			credentials.Close()
		}
		if token != nil {
			token.Close()
		}
	}
	if f.token != "" && f.cert == "" && f.key == "" && f.ca != "" {
		credentials, err = access.LoadCredentials(access.CredentialConfig{CredentialFiles: access.CredentialFiles{CA: f.ca}, Log: log})
	} else {
		credentials, err = f.tlsFlags.load(access.CredentialConfig{Log: log})
	}
	if err == nil && f.token != "" {
		token, err = access.LoadTokenFile(f.token, log)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	if credentials != nil {
		opts = append(opts, client.WithCredentials(credentials))
	}
	if token != nil {
		opts = append(opts, client.WithTokenFile(token))
	}
	return opts, release, nil
}

// securityFlags are those of a server.
type securityFlags struct {
	tlsFlags
	guardFlags
	secret string
}

func (f *securityFlags) add(flags *pflag.FlagSet) {
	f.tlsFlags.add(flags)
	f.guardFlags.add(flags)
	flags.StringVar(&f.secret, "secret-file", "", "file with the secret that all tasks of the cluster share (troupe secret new)")
}

// security is what the flags came to.
type security struct {
	credentials *access.Credentials // nil: none
	guards      guards
	options     []troupe.Option
}

func (f *securityFlags) load(log *slog.Logger) (*security, error) {
	s := &security{}
	var err error
	if s.guards, err = f.guardFlags.load(log); err != nil {
		return nil, err
	}
	s.options = s.guards.options()
	// Without a certificate, a client may have a token.
	config := access.CredentialConfig{Anonymous: s.guards.tokens != nil, Reloaded: s.guards.audit.Reloaded, Log: log}
	if s.credentials, err = f.tlsFlags.load(config); err != nil {
		s.close()
		return nil, err
	}
	if s.credentials != nil {
		s.options = append(s.options, troupe.WithCredentials(s.credentials))
	}
	if f.secret != "" {
		s.options = append(s.options, troupe.WithSecretFile(f.secret))
	}
	return s, nil
}

func (s *security) close() {
	s.guards.close()
	if s.credentials != nil {
		s.credentials.Close()
	}
}

// reload reads all files again.
func (s *security) reload(server *troupe.Server) error {
	errs := []error{s.guards.reload()}
	if s.credentials != nil {
		errs = append(errs, s.credentials.Reload())
	}
	return errors.Join(append(errs, server.Reload())...)
}
