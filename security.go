package troupe

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
)

// WithCredentials makes the server speak mutual TLS 1.3 on its port, with clients and other tasks alike, and refuse
// plain connections. The certificate must name the server's task. The caller closes the credentials after the server
// has stopped; several servers may share them. A cluster of several tasks also needs WithSecretFile.
func WithCredentials(credentials *access.Credentials) Option {
	return option("WithCredentials", func(o *options) {
		if credentials == nil && o.err == nil {
			o.err = status.InvalidArgumentf("WithCredentials needs credentials: they are nil")
		}
		o.credentials = credentials
	})
}

// WithSecretFile names the file with the secret that the tasks of the cluster share. Tasks prove to each other that
// they know it, and it encrypts the gossip between them. `troupe secret new` makes one. The file must not be readable
// by others. While a secret is being replaced, it has the new one and the old one, each on its own line.
func WithSecretFile(path string) Option {
	return option("WithSecretFile", func(o *options) { o.secretFile = path })
}

// WithPolicy sets who may do what: see docs/security.md. The caller closes the policy after the server has stopped;
// several servers may share it, and each counts usage separately.
func WithPolicy(policy *access.PolicyFile) Option {
	return option("WithPolicy", func(o *options) { o.policy = policy })
}

// WithTokens accepts tokens from clients. Without a policy, all callers must then present a token or a certificate. The
// caller closes the tokens after the server has stopped; several servers may share them.
func WithTokens(tokens *access.Tokens) Option {
	return option("WithTokens", func(o *options) { o.tokens = tokens })
}

// WithAudit records sessions, resets and refusals. The caller closes the log after the server has stopped; several servers
// may share it.
func WithAudit(audit *access.Audit) Option {
	return option("WithAudit", func(o *options) { o.audit = audit })
}

// guard returns what decides who may do what, or nil if everybody may do everything and nothing is recorded.
func (o *options) guard() *access.Guard {
	if o.policy == nil && o.tokens == nil && o.audit == nil {
		return nil
	}
	return access.NewGuard(o.tokens, o.policy, o.audit)
}

// Reload reads the file of WithSecretFile again. New links and gossip use its secrets. After an error the previous
// secrets stay in effect. Credentials are reloaded automatically.
func (s *Server) Reload() error {
	node, err := s.running()
	if err != nil {
		return err
	}
	return node.ReloadSecret()
}
