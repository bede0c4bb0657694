package flagset

import (
	"errors"
	"log/slog"

	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/access"
)

// Guard are the flags that say which callers may do what on a server, and what is recorded.
type Guard struct{ policy, tokens, keys, audience, issuer, audit string }

// Add adds the flags.
func (f *Guard) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.policy, "policy", "", "file that says who may do what (troupe policy check); without it, everybody who is let in may do everything")
	flags.StringVar(&f.tokens, "tokens", "", "file of hashed tokens that clients may show (troupe token new)")
	flags.StringVar(&f.keys, "jwt-key", "", "file with the public keys (PEM) or the secret (troupe secret new) that clients' JSON web tokens are signed with")
	flags.StringVar(&f.audience, "jwt-audience", "", "audience that JSON web tokens have to be for")
	flags.StringVar(&f.issuer, "jwt-issuer", "", "issuer that JSON web tokens have to be from")
	flags.StringVar(&f.audit, "audit-log", "", "file to record sessions, resets and refusals in, as lines of JSON (with --policy or tokens and without this, they are in the log)")
}

// Guards holds the results of the flags; nil for those that were not set.
type Guards struct {
	policy *access.PolicyFile
	Tokens *access.Tokens
	Audit  *access.Audit
	log    *slog.Logger
}

// Load reads the files of the flags. Close releases the result.
func (f *Guard) Load(log *slog.Logger) (g Guards, err error) {
	g.log = log
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	if f.keys == "" && (f.audience != "" || f.issuer != "") {
		return g, exit.Usage(errors.New("--jwt-audience and --jwt-issuer need --jwt-key"))
	}
	if f.policy == "" && f.tokens == "" && f.keys == "" && f.audit == "" {
		return g, nil
	}
	if g.Audit, err = access.OpenAudit(f.audit, log); err != nil {
		return g, err
	}
	if f.policy != "" {
		if g.policy, err = access.LoadPolicy(access.PolicyConfig{File: f.policy, Reloaded: g.Audit.Reloaded, Log: log}); err != nil {
			return g, err
		}
	}
	if f.tokens != "" || f.keys != "" {
		g.Tokens, err = access.LoadTokens(access.TokenConfig{File: f.tokens, Keys: f.keys, Audience: f.audience, Issuer: f.issuer, Reloaded: g.Audit.Reloaded, Log: log})
	}
	return g, err
}

// Options returns the server's options from the flags.
func (g *Guards) Options() (all []troupe.Option) {
	if g.policy != nil {
		all = append(all, troupe.WithPolicy(g.policy))
	}
	if g.Tokens != nil {
		all = append(all, troupe.WithTokens(g.Tokens))
	}
	if g.Audit != nil {
		all = append(all, troupe.WithAudit(g.Audit))
	}
	return all
}

// Reload reads the files again, and continues with a new audit log if the old one was renamed.
func (g *Guards) Reload() error {
	errs := []error{g.Audit.Reopen()}
	if g.policy != nil {
		errs = append(errs, g.policy.Reload())
	}
	if g.Tokens != nil {
		errs = append(errs, g.Tokens.Reload())
	}
	return errors.Join(errs...)
}

// Close releases what was loaded.
func (g *Guards) Close() {
	if g.policy != nil {
		g.policy.Close()
	}
	if g.Tokens != nil {
		g.Tokens.Close()
	}
	if err := g.Audit.Close(); err != nil {
		g.log.Warn("the audit log was not closed in order", "error", err)
	}
}
