package serve

import (
	"errors"
	"log/slog"

	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/remote/access"
)

// securityFlags are a server's flags for security.
type securityFlags struct {
	tls    flagset.TLS
	guard  flagset.Guard
	secret string
}

func (f *securityFlags) add(flags *pflag.FlagSet) {
	f.tls.Add(flags)
	f.guard.Add(flags)
	flags.StringVar(&f.secret, "secret-file", "", "file with the secret that all tasks of the cluster share (troupe secret new)")
}

// security holds the results of the flags.
type security struct {
	credentials *access.Credentials // nil means none
	guards      flagset.Guards
	options     []troupe.Option
}

func (f *securityFlags) load(log *slog.Logger) (*security, error) {
	s := &security{}
	var err error
	if s.guards, err = f.guard.Load(log); err != nil {
		return nil, err
	}
	s.options = s.guards.Options()
	// Without a certificate, a client may have a token.
	config := access.CredentialConfig{Anonymous: s.guards.Tokens != nil, Reloaded: s.guards.Audit.Reloaded, Log: log}
	if s.credentials, err = f.tls.Load(config); err != nil {
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
	s.guards.Close()
	if s.credentials != nil {
		s.credentials.Close()
	}
}

// reload reads all files again.
func (s *security) reload(server *troupe.Server) error {
	errs := []error{s.guards.Reload()}
	if s.credentials != nil {
		errs = append(errs, s.credentials.Reload())
	}
	return errors.Join(append(errs, server.Reload())...)
}
