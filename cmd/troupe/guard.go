package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/remote/access"
)

// guardFlags say who may do what on a server, and what is recorded.
type guardFlags struct{ policy, tokens, keys, audience, issuer, audit string }

func (f *guardFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.policy, "policy", "", "file that says who may do what (troupe policy check); without it, everybody who is let in may do everything")
	flags.StringVar(&f.tokens, "tokens", "", "file of hashed tokens that clients may show (troupe token new)")
	flags.StringVar(&f.keys, "jwt-key", "", "file with the public keys (PEM) or the secret (troupe secret new) that clients' JSON web tokens are signed with")
	flags.StringVar(&f.audience, "jwt-audience", "", "audience that JSON web tokens have to be for")
	flags.StringVar(&f.issuer, "jwt-issuer", "", "issuer that JSON web tokens have to be from")
	flags.StringVar(&f.audit, "audit-log", "", "file to record sessions, resets and refusals in, as lines of JSON (with --policy or tokens and without this, they are in the log)")
}

// guards are what the flags came to; nil for what was not asked for.
type guards struct {
	policy *access.PolicyFile
	tokens *access.Tokens
	audit  *access.Audit
	log    *slog.Logger
}

func (f *guardFlags) load(log *slog.Logger) (g guards, err error) {
	g.log = log
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if f.keys == "" && (f.audience != "" || f.issuer != "") {
		return g, usage(errors.New("--jwt-audience and --jwt-issuer need --jwt-key"))
	}
	if f.policy == "" && f.tokens == "" && f.keys == "" && f.audit == "" {
		return g, nil
	}
	if g.audit, err = access.OpenAudit(f.audit, log); err != nil {
		return g, err
	}
	if f.policy != "" {
		if g.policy, err = access.LoadPolicy(access.PolicyConfig{File: f.policy, Reloaded: g.audit.Reloaded, Log: log}); err != nil {
			return g, err
		}
	}
	if f.tokens != "" || f.keys != "" {
		g.tokens, err = access.LoadTokens(access.TokenConfig{File: f.tokens, Keys: f.keys, Audience: f.audience, Issuer: f.issuer, Reloaded: g.audit.Reloaded, Log: log})
	}
	return g, err
}

func (g *guards) options() (all []troupe.Option) {
	if g.policy != nil {
		all = append(all, troupe.WithPolicy(g.policy))
	}
	if g.tokens != nil {
		all = append(all, troupe.WithTokens(g.tokens))
	}
	if g.audit != nil {
		all = append(all, troupe.WithAudit(g.audit))
	}
	return all
}

// reload reads the files again, and goes on with a new audit log where the old one was renamed.
func (g *guards) reload() error {
	errs := []error{g.audit.Reopen()}
	if g.policy != nil {
		errs = append(errs, g.policy.Reload())
	}
	if g.tokens != nil {
		errs = append(errs, g.tokens.Reload())
	}
	return errors.Join(errs...)
}

func (g *guards) close() {
	if g.policy != nil {
		g.policy.Close()
	}
	if g.tokens != nil {
		g.tokens.Close()
	}
	if err := g.audit.Close(); err != nil {
		g.log.Warn("the audit log was not closed in order", "error", err)
	}
}
