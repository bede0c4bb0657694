package node

import (
	"log/slog"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/internal/quiet"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
	"go.opentelemetry.io/otel/trace"
)

// DefaultStartup is how long after its start a node waits for tasks that have never been seen, unless WithStartup says otherwise.
const DefaultStartup = member.DefaultStartup

// Option configures a node.
type Option func(*options)

type options struct {
	job         *string
	task        *int
	start       bool
	startup     time.Duration
	bind        string
	outsiders   bool
	kinds       Kinds
	actorLimit  int
	end         func(time.Duration)
	credentials *access.Credentials
	secretFile  string
	policy      *access.PolicyFile
	tokens      *access.Tokens
	audit       *access.Audit
	insecure    bool
	traces      trace.TracerProvider
	network     network.Network // nil for the machine's own
	private     bool            // only this process reaches the network
	log         *slog.Logger

	claim bool // the process joins a running cluster and claims the task

	err error // of the first invalid option
}

// collect applies options.
func collect(opts []Option) (*options, error) {
	o := &options{start: true, startup: DefaultStartup, log: slog.Default()}
	for _, opt := range opts {
		if opt == nil {
			return nil, status.InvalidArgumentf("An option of a node is nil")
		}
		opt(o)
	}
	return o, o.err
}

// fail records the first error.
func (o *options) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// config returns the configuration of a task with kinds of actors.
func (o *options) config(cluster *spec.Spec, task spec.Task, kinds map[string]cast.Maker) member.Config {
	var guard *access.Guard
	if o.policy != nil || o.tokens != nil || o.audit != nil {
		guard = access.NewGuard(o.tokens, o.policy, o.audit).ForPort()
	}
	return member.Config{Spec: cluster, Job: task.Job, Task: task.Index, Bind: o.bind, Claimed: o.claim, Startup: o.startup, Actors: kinds, ActorLimit: o.actorLimit,
		Traces: o.traces, Credentials: o.credentials, Guard: guard, SecretFile: o.secretFile, Outsiders: o.outsiders, Insecure: o.insecure,
		Network: o.network, Private: o.private, Log: o.log}
}

// WithActor registers a kind of actor on the node; all tasks of the cluster may then spawn actors of this
// kind there. A second WithActor of the same kind replaces the first. Without options, actors end with their first failure;
// see Restart.
func WithActor(kind string, create ActorMaker, opts ...ActorOption) Option {
	return func(o *options) {
		if err := o.kinds.Add(kind, create, opts...); err != nil {
			o.fail(err)
		}
	}
}

// WithActorLimit limits the program's actors on the node; 0, the default, means MaxActors. Half of them may be there because of one client: those
// that it has spawned, and virtual ones that its messages have begun.
func WithActorLimit(actors int) Option { return func(o *options) { o.actorLimit = actors } }

// WithJob sets the job that the node is a task of. It may be omitted if the cluster has one job.
func WithJob(name string) Option { return func(o *options) { o.job = &name } }

// WithTask sets the index of the node's task in its job. It may be omitted if the job has one task.
func WithTask(index int) Option { return func(o *options) { o.task = &index } }

// WithStart sets whether the node serves at once, as it does by default. With false it binds its port but does not
// serve until Start is called.
func WithStart(start bool) Option { return func(o *options) { o.start = start } }

// WithStartup sets how long after its start the node waits for tasks that have never been seen. The tasks of a cluster may start in any
// order: what needs a task that has not come yet waits for it. After that time, and always for tasks that were lost, it fails within seconds.
func WithStartup(d time.Duration) Option { return func(o *options) { o.startup = d } }

// WithBind sets the host:port to bind, for a node that others reach at its address in the cluster through a forwarded
// port. Without it the node binds that address.
func WithBind(address string) Option { return func(o *options) { o.bind = address } }

// WithLogger sets the logger of the node and all of its parts. The default is slog.Default().
func WithLogger(log *slog.Logger) Option {
	return func(o *options) {
		if log == nil {
			o.fail(status.InvalidArgumentf("WithLogger needs a logger: it is nil"))
		}
		o.log = log
	}
}

// WithOutsiders allows processes that are not tasks of the cluster and that speak protoactor-go's remote protocol to exchange messages with the
// program's actors, in both directions: see docs/actors.md. Any such process that can reach the port is accepted.
func WithOutsiders(let bool) Option { return func(o *options) { o.outsiders = let } }

// WithDrainRequests lets operators end the node (troupe drain): end is called with the time that they allow, or 0, and makes the program stop it.
// It must not block. Without it, such requests are refused.
func WithDrainRequests(end func(within time.Duration)) Option {
	return func(o *options) { o.end = end }
}

// WithTraces records OpenTelemetry spans of the messages to the program's actors that belong to a trace.
func WithTraces(provider trace.TracerProvider) Option {
	return func(o *options) { o.traces = provider }
}

// WithCredentials makes the node speak mutual TLS 1.3 on its port, with clients and other tasks alike, and refuse
// plain connections. The certificate must name the node's task. The caller closes the credentials after the node
// has stopped. A cluster of several tasks also needs WithSecretFile.
func WithCredentials(credentials *access.Credentials) Option {
	return func(o *options) {
		if credentials == nil {
			o.fail(status.InvalidArgumentf("WithCredentials needs credentials: they are nil"))
		}
		o.credentials = credentials
	}
}

// WithSecretFile names the file with the secret that the tasks of the cluster share, which must not be readable by others. Tasks prove to each other
// that they know it, and it encrypts the gossip between them. `troupe secret new` makes one.
func WithSecretFile(path string) Option { return func(o *options) { o.secretFile = path } }

// WithPolicy sets who may do what: see docs/security.md. The caller closes the policy after the node has stopped.
func WithPolicy(policy *access.PolicyFile) Option { return func(o *options) { o.policy = policy } }

// WithTokens accepts tokens from clients. Without a policy, all callers must then present a token or a certificate. The
// caller closes the tokens after the node has stopped.
func WithTokens(tokens *access.Tokens) Option { return func(o *options) { o.tokens = tokens } }

// WithAudit records refusals and what operators do. The caller closes the log after the node has stopped.
func WithAudit(audit *access.Audit) Option { return func(o *options) { o.audit = audit } }

// WithInsecure says that it is meant so if whoever reaches the node's port may use it: no warning is logged, and a node that other machines
// need binds all interfaces if its own address is of the loopback interface.
func WithInsecure(insecure bool) Option { return func(o *options) { o.insecure = insecure } }

// logWarnings makes a node that a program tries something out with log only warnings and errors, unless the program gives it a logger.
func logWarnings(o *options) { o.log = quiet.Warnings(o.log) }
