package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
)

// clientFlags are the identity that a command shows to servers.
type clientFlags struct {
	tls   flagset.TLS
	token string
}

func (f *clientFlags) add(flags *pflag.FlagSet) {
	f.tls.Add(flags)
	flags.StringVar(&f.token, "token-file", "", "file with a token to show (troupe token new), over TLS or to this machine; with --tls-ca, no certificate is needed")
}

// explain adds the flags to use to the error of a server that requires an identity, if the command has shown none, or a token in the clear.
func (f *clientFlags) explain(err error) error {
	switch {
	case f.tls != (flagset.TLS{}) || status.CodeOf(err) != status.Unauthenticated:
		return err
	case f.token != "":
		return fmt.Errorf("%w\n  if the server has certificates, give this command --tls-ca beside --token-file", err)
	}
	return fmt.Errorf("%w\n  give this command a certificate (--tls-cert, --tls-key and --tls-ca) or a token (--token-file; if the server has certificates, --tls-ca too)", err)
}

// load returns the client's options, and a function that releases them.
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
	if f.token != "" && f.tls.Cert == "" && f.tls.Key == "" && f.tls.CA != "" {
		credentials, err = access.LoadCredentials(access.CredentialConfig{CredentialFiles: access.CredentialFiles{CA: f.tls.CA}, Log: log})
	} else {
		credentials, err = f.tls.Load(access.CredentialConfig{Log: log})
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
