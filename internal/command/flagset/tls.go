package flagset

import (
	"errors"

	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/access"
)

// TLS are the flags with the files of an identity.
type TLS struct{ Cert, Key, CA string }

// Add adds the flags.
func (f *TLS) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Cert, "tls-cert", "", "file with the certificate (PEM); with --tls-key and --tls-ca, connections are encrypted and both ends identified")
	flags.StringVar(&f.Key, "tls-key", "", "file with the certificate's key (PEM)")
	flags.StringVar(&f.CA, "tls-ca", "", "file with the certificates of the authorities that are trusted (PEM)")
}

// Load reads the files. It returns nil if none is given. c says how they are used.
func (f *TLS) Load(c access.CredentialConfig) (*access.Credentials, error) {
	if *f == (TLS{}) {
		return nil, nil //nolint:nilnil // no flags, no credentials
	}
	if f.Cert == "" || f.Key == "" || f.CA == "" {
		return nil, exit.Usage(errors.New("--tls-cert, --tls-key and --tls-ca belong together: give all three"))
	}
	c.CredentialFiles = access.CredentialFiles{Cert: f.Cert, Key: f.Key, CA: f.CA}
	return access.LoadCredentials(c)
}
