package troupe

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/spec"
)

// WithCredentials makes the server speak mutual TLS 1.3 on its port, with clients and other tasks alike, and refuse
// plain connections. The certificate has to name the server's task. The caller closes the credentials after the
// server has stopped; several servers may share them. A cluster of several tasks also needs WithSecretFile.
func WithCredentials(credentials *access.Credentials) Option {
	return option("WithCredentials", func(o *options) {
		if credentials == nil && o.err == nil {
			o.err = status.InvalidArgumentf("WithCredentials needs credentials: they are nil")
		}
		o.credentials = credentials
	})
}

// checkCertificate refuses a certificate of somebody else: peers would not take the server for its task.
func (o *options) checkCertificate(self spec.Task) error {
	if o.credentials == nil || o.credentials.Name().IsTask(self.Job, self.Index) {
		return nil
	}
	return status.InvalidArgumentf("the certificate of %s does not let its owner be %s: use the one of %s (--tls-cert, WithCredentials)",
		o.credentials.Name(), self.Name(), access.TaskName(self.Job, self.Index))
}

// WithSecretFile names the file with the secret that the tasks of the cluster share. Tasks prove to each other that they
// know it, and it encrypts the gossip between them. `troupe secret new` makes one. The file must not be readable by
// others; while a secret is replaced, it has the new and the old one, each in a line.
func WithSecretFile(path string) Option {
	return option("WithSecretFile", func(o *options) { o.secretFile = path })
}

// WithPolicy says who may do what: see docs/security.md. The caller closes the policy after the server has stopped;
// several servers may share it, and each counts for itself.
func WithPolicy(policy *access.PolicyFile) Option {
	return option("WithPolicy", func(o *options) { o.policy = policy })
}

// WithTokens accepts tokens from clients. Without a policy, all callers then have to show a token or a certificate. The
// caller closes the tokens after the server has stopped; several servers may share them.
func WithTokens(tokens *access.Tokens) Option {
	return option("WithTokens", func(o *options) { o.tokens = tokens })
}

// WithAudit records sessions, resets and refusals. The caller closes the log after the server has stopped; several servers
// may share it.
func WithAudit(audit *access.Audit) Option {
	return option("WithAudit", func(o *options) { o.audit = audit })
}

// guard decides who may do what; nil if everybody may do everything and nothing is recorded.
func (o *options) guard() *access.Guard {
	if o.policy == nil && o.tokens == nil && o.audit == nil {
		return nil
	}
	return access.NewGuard(o.tokens, o.policy, o.audit)
}

// Reload reads the file of WithSecretFile again. Links and gossip that begin from then on use it; after an error the
// secrets of before hold. Credentials are reloaded by themselves.
func (s *Server) Reload() error {
	node, err := s.running()
	if err != nil {
		return err
	}
	return node.ReloadSecret()
}
