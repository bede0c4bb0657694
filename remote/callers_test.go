package remote

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/observe"
	"github.com/troupe-run/troupe/remote/observe/ui"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// callerPolicy is the policy of the table's servers, as docs/security.md has it.
const callerPolicy = `rules:
  - {who: "client:ops", may: all, files: all}
  - {who: "client:alice", may: open}
  - {who: task:worker, may: all}
`

// flags are the flags that a server of the table is started with.
type flags struct {
	tokens, secret, certificates, policy          bool
	files, insecure, http, outsiders, jwt, audits bool
}

// columns are the columns of the tables.
var columns = map[string]flags{
	"no flags":        {},
	"`--tokens`":      {tokens: true},
	"`--secret-file`": {secret: true},
	"certificates":    {secret: true, certificates: true},
	"`--policy`":      {policy: true},
	"all of them":     {tokens: true, secret: true, certificates: true, policy: true},
	"`--files`":       {files: true},
	"`--insecure`":    {insecure: true},
	"`--http`":        {http: true},
	"`--outsiders`":   {outsiders: true},
	"`--jwt-key`":     {jwt: true},
	"`--audit-log`":   {audits: true},
}

// caller is a row of the table: where it calls from, and which of the server's credentials it presents.
type caller struct {
	far           bool        // from another machine
	token         string      // its owner
	certificate   access.Name // if empty, it calls a server with certificates over TLS without one
	secret        bool
	task, foreign bool // it serves a task's address; it is a page of another site
}

var callers = map[string]caller{
	"a process on another machine":                                 {far: true},
	"a process on the server's machine":                            {},
	"a client with a token, on another machine":                    {far: true, token: "ops"},
	"a client with a token":                                        {token: "ops"},
	"a client with a certificate, on another machine":              {far: true, certificate: access.ClientName("ops")},
	"a client with a token, whose rule has `may: open`":            {token: "alice"},
	"a client with a certificate, whom no rule is about":           {certificate: access.ClientName("eve")},
	"a process at a task's address":                                {task: true},
	"… with a client's certificate and the secret":                 {task: true, certificate: access.ClientName("ops"), secret: true},
	"… with the task's certificate and the secret":                 {task: true, certificate: access.TaskName("worker", 0), secret: true},
	"a page of another site, in a browser on the server's machine": {foreign: true},
}

// fromAfar is a network on which connections appear to come from an address that the test sets.
type fromAfar struct {
	network.Network
	at *atomic.Pointer[net.TCPAddr]
}

func (n fromAfar) ListenTCP(address *net.TCPAddr) (net.Listener, error) {
	l, err := n.Network.ListenTCP(address)
	return afarListener{l, n.at}, err
}

type afarListener struct {
	net.Listener
	at *atomic.Pointer[net.TCPAddr]
}

func (l afarListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if at := l.at.Load(); err == nil && at != nil {
		c = afarConn{c, at}
	}
	return c, err
}

type afarConn struct {
	net.Conn
	at net.Addr
}

func (c afarConn) RemoteAddr() net.Addr { return c.at }

// protected is the server of a column, with its callers' credentials.
type protected struct {
	*testing.T
	node     *Node
	spec     *spec.Spec
	has      flags
	from     atomic.Pointer[net.TCPAddr]
	tokens   map[string]string
	ca       *authority
	secret   string
	file     string // owned by the server's user
	shared   string // below --files
	audit    string
	endpoint *observe.Endpoint
	beyond   http.Handler // of an endpoint that does not listen on the loopback interface; nil without --http
	lent     uint64       // clusters that the server was asked to join
}

func protect(t *testing.T, has flags) *protected {
	t.Helper()
	p := &protected{T: t, has: has, tokens: map[string]string{}, ca: newAuthority(t), secret: secretFile(t, "s"), file: filepath.Join(t.TempDir(), "file")}
	write(t, p.file, []byte("content"))
	p.shared, p.audit = filepath.Join(t.TempDir(), "shared"), filepath.Join(t.TempDir(), "audit.jsonl")
	write(t, p.shared, []byte("content"))
	addresses := spectest.Addresses(t, 2)
	var err error
	if p.spec, err = spec.New(map[string]map[int]string{"ps": {0: addresses[0]}, "worker": {0: addresses[1]}}); err != nil {
		t.Fatal(err)
	}
	c := Config{Spec: p.spec, Job: "ps", Log: quiet, Network: fromAfar{network.System, &p.from}, Outsiders: has.outsiders, Files: actors.FileAccess{Insecure: has.insecure}}
	if has.files {
		c.Files.Folders = []string{filepath.Dir(p.shared)}
	}
	var tokens *access.Tokens
	var policy *access.PolicyFile
	var audit *access.Audit
	if has.jwt {
		path := filepath.Join(t.TempDir(), "key")
		write(t, path, access.NewSecret())
		key, err := access.LoadSecret(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"ops", "alice"} {
			claims := jwt.MapClaims{"sub": who, "exp": time.Now().Add(time.Hour).Unix()}
			if p.tokens[who], err = jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(key); err != nil {
				t.Fatal(err)
			}
		}
		if tokens, err = access.LoadTokens(access.TokenConfig{Keys: path, Log: quiet}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tokens.Close)
	}
	if has.audits {
		if audit, err = access.OpenAudit(p.audit, quiet); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := audit.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if has.tokens {
		var lines []string
		for _, who := range []string{"ops", "alice"} {
			token, line, err := access.NewToken(who, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			p.tokens[who], lines = token, append(lines, line)
		}
		path := filepath.Join(t.TempDir(), "tokens")
		write(t, path, []byte(strings.Join(lines, "\n")))
		if tokens, err = access.LoadTokens(access.TokenConfig{File: path, Log: quiet}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tokens.Close)
	}
	if has.policy {
		path := filepath.Join(t.TempDir(), "policy.yaml")
		write(t, path, []byte(callerPolicy))
		if policy, err = access.LoadPolicy(access.PolicyConfig{File: path, Log: quiet}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(policy.Close)
	}
	if tokens != nil || policy != nil || audit != nil {
		c.Guard = access.NewGuard(tokens, policy, audit)
	}
	if has.secret {
		c.SecretFile = p.secret
	}
	if has.certificates {
		c.Credentials = p.ca.load(t, p.ca.ca, access.TaskName("ps", 0), has.tokens, "127.0.0.1")
	}
	if p.node, err = Start(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p.node) })
	tasks := served(p.node)
	at := observe.Config{Address: "127.0.0.1:0", Tasks: tasks, Guard: p.node.config.Guard, Credentials: c.Credentials, Log: quiet, UI: ui.Handler(p.node.see, ui.WithActs(tasks))}
	if has.http {
		p.beyond = observe.Handler(at)
	}
	if p.endpoint, err = observe.Listen(at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.endpoint.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// show returns what a caller presents of what the server accepts. A caller without a certificate trusts the authority of a server with TLS.
func (p *protected) show(c caller) (credentials *access.Credentials, options []client.Option) {
	p.Helper()
	if p.has.certificates {
		if c.certificate != (access.Name{}) {
			credentials = p.ca.issue(p.T, c.certificate, "127.0.0.1")
		} else {
			var err error
			if credentials, err = access.LoadCredentials(access.CredentialConfig{CredentialFiles: access.CredentialFiles{CA: p.ca.ca}, Log: quiet}); err != nil {
				p.Fatal(err)
			}
			p.Cleanup(credentials.Close)
		}
		options = append(options, client.WithCredentials(credentials))
	}
	if token := p.tokens[c.token]; token != "" {
		options = append(options, client.WithToken(token))
	}
	return credentials, options
}

// can returns the acts that a caller can do, in the words of the table.
func (p *protected) can(c caller) (acts []string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
	defer cancel()
	p.from.Store(nil)
	if c.far {
		p.from.Store(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711})
	}
	credentials, options := p.show(c)
	try := func(act string, err error) {
		if err == nil {
			acts = append(acts, act)
		}
	}
	switch {
	case c.task:
		try("be a task", p.serve(ctx, c, credentials))
		return acts
	case c.foreign:
		try("act", p.post(ctx, c, credentials, "http://evil.example"))
		return acts
	}
	call := port.Caller(nil, member.CallWith(credentials))
	_, err := link.Who(ctx, call, p.node.Address())
	if err == nil {
		err = call(ctx, p.node.Address(), healthpb.Health_Check_FullMethodName, &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{})
	}
	try("ask", err)
	p.lent++
	lend := &wire.LendRequest{Cluster: p.lent, Spec: "a=127.0.0.1:1", Task: "/job:a/replica:0/task:0", Master: "/job:a/replica:0/task:0"}
	try("lend", call(ctx, p.node.Address(), wire.GuestLend, lend, &wire.LendReply{}))
	by, err := client.Dial(ctx, p.node.Target(), options...)
	if err != nil { // the client opens its connection at once
		return acts
	}
	defer by.Close(ctx)
	try("run", fetchBy(ctx, by, func(s *op.Scope) op.Output { return op.Const(s, int64(1)) }))
	if err = by.Actor("", "nobody").End(ctx); status.CodeOf(err) == status.NotFound {
		err = nil
	}
	try("use actors", err)
	try("read files", fetchBy(ctx, by, func(s *op.Scope) op.Output { return op.ReadFile(s, op.Const(s, p.file)) }))
	if p.has.files {
		try("read shared files", fetchBy(ctx, by, func(s *op.Scope) op.Output { return op.ReadFile(s, op.Const(s, p.shared)) }))
	}
	_, err = by.Status(ctx)
	try("list", err)
	try("reset", by.Reset(ctx))
	switch {
	case p.beyond != nil:
		try("act", p.beyondLoopback(c, http.MethodPost, "/ui/api/reset"))
		try("look", p.beyondLoopback(c, http.MethodGet, "/api/see"))
	case !c.far: // the endpoint listens on the loopback interface
		try("act", p.post(ctx, c, credentials, strings.TrimSuffix(p.endpoint.URL(), "/")))
	}
	if !p.has.certificates {
		try("speak", p.speak(ctx, c))
	}
	return acts
}

// beyondLoopback asks the endpoint that everybody reaches.
func (p *protected) beyondLoopback(c caller, method, path string) error {
	r := httptest.NewRequest(method, path, strings.NewReader(`{"containers": []}`))
	r.Host, r.RemoteAddr = "192.0.2.9:8080", "127.0.0.1:4711"
	if c.far {
		r.RemoteAddr = "192.0.2.1:4711"
	}
	r.Header.Set("Content-Type", "application/json")
	if p.tokens[c.token] != "" {
		r.Header.Set("Authorization", "Bearer "+p.tokens[c.token])
	}
	w := httptest.NewRecorder()
	p.beyond.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return errors.New(w.Result().Status)
	}
	return nil
}

// speak begins a stream of protoactor-go's remote protocol, as a process with an address of its own, and waits until it is admitted.
func (p *protected) speak(ctx context.Context, c caller) error {
	conn, err := grpc.NewClient("passthrough:///"+p.node.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer conn.Close()
	if p.tokens[c.token] != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+p.tokens[c.token])
	}
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/remote.Remoting/Receive")
	if err != nil {
		return err
	}
	server := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "outside")
	server = protowire.AppendString(protowire.AppendTag(server, 2, protowire.BytesType), "192.0.2.7:1")
	request := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), server)
	var message, answer emptypb.Empty
	message.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), request))
	if err := s.SendMsg(&message); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return s.RecvMsg(&answer)
}

// fetchBy opens a session and runs a step.
func fetchBy(ctx context.Context, by *client.Client, draw func(s *op.Scope) op.Output) error {
	s := op.NewScope()
	out := draw(s)
	def, err := s.GraphDef()
	if err != nil {
		return err
	}
	session, err := by.NewSession(ctx, def, nil)
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	got, err := session.Run(ctx, nil, []string{out.Name()}, nil)
	for _, t := range got {
		t.Release()
	}
	return err
}

// serve runs the process of the other task, with the caller's credentials, and asks the server for a link.
func (p *protected) serve(ctx context.Context, c caller, credentials *access.Credentials) error {
	config := Config{Spec: p.spec, Job: "worker", Log: quiet}
	if p.has.certificates {
		config.Credentials, config.SecretFile = credentials, secretFile(p.T, "t") // a node with certificates needs a secret
	}
	if c.secret && p.has.secret {
		config.SecretFile = p.secret
	}
	n, err := Start(ctx, config)
	if err != nil {
		return err
	}
	defer stop(p.T, n)
	_, err = n.Links().Ensure(ctx, p.node.Self().Name())
	return err
}

// post asks the dashboard to empty the default container, from a page of the given origin.
func (p *protected) post(ctx context.Context, c caller, credentials *access.Credentials, origin string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint.URL()+"ui/api/reset", strings.NewReader(`{"containers": []}`))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", origin)
	if p.tokens[c.token] != "" {
		r.Header.Set("Authorization", "Bearer "+p.tokens[c.token])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	if credentials != nil {
		transport.TLSClientConfig = withHost(credentials.Client("http/1.1"))
	}
	a, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return err
	}
	if a.StatusCode != http.StatusOK {
		err = errors.New(a.Status)
	}
	return errors.Join(err, a.Body.Close())
}

// callerTable reads the tables of the section with the given title, which have the same rows: their cells, by row and column.
func callerTable(t *testing.T, title string) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## "+title+"\n")
	if !ok {
		t.Fatalf("there is no section %q", title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	if !strings.Contains(section, "```yaml\n"+callerPolicy+"```") {
		t.Errorf("the section does not have the policy that is tested:\n%s", callerPolicy)
	}
	cells := func(line string) (all []string) {
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			all = append(all, strings.TrimSpace(cell))
		}
		return all
	}
	var titles []string
	table := map[string]map[string]string{}
	for line := range strings.SplitSeq(section, "\n") {
		switch row := cells(line); {
		case !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---"):
		case row[0] == "":
			titles = row
		case len(row) != len(titles) || table[row[0]][titles[1]] != "":
			t.Fatalf("the row %q", line)
		default:
			if table[row[0]] == nil {
				table[row[0]] = map[string]string{}
			}
			for i, cell := range row[1:] {
				table[row[0]][titles[i+1]] = cell
			}
		}
	}
	return table
}

// TestCallers has each kind of caller in the tables of docs/security.md try everything, on a server with the flags of each column: it can do
// exactly what its cell says.
func TestCallers(t *testing.T) {
	table := callerTable(t, "Who can do what")
	if got, want := slices.Sorted(maps.Keys(table)), slices.Sorted(maps.Keys(callers)); !slices.Equal(got, want) {
		t.Fatalf("the page has the callers\n%q\nand the test\n%q", got, want)
	}
	for column, has := range columns {
		t.Run(column, func(t *testing.T) {
			if !extent.Check() && column != "no flags" && column != "all of them" {
				t.Skip("make check tries all columns")
			}
			p := protect(t, has)
			rows := slices.SortedFunc(maps.Keys(callers), func(a, b string) int { // tasks last: others miss a task that has left
				return cmp.Or(cmp.Compare(strconv.FormatBool(callers[a].task), strconv.FormatBool(callers[b].task)), cmp.Compare(a, b))
			})
			for _, row := range rows {
				cell, ok := table[row][column]
				if !ok {
					t.Fatalf("the page has no column %q", column)
				}
				before := p.audited()
				acts := p.can(callers[row])
				if got := words(acts); got != cell {
					t.Errorf("%s can: %s\nthe page says: %s", row, got, cell)
				}
				if opened := p.audited() - before; has.audits && (opened > 0) != slices.Contains(acts, "run") {
					t.Errorf("%s can %s, and the audit log has %d sessions", row, words(acts), opened)
				}
			}
		})
	}
	for row, cells := range table { // every row has cells, as checked above
		if len(cells) != len(columns) {
			t.Errorf("%s has the columns %q, which are not those of the test", row, slices.Sorted(maps.Keys(cells)))
		}
	}
}

// audited returns the number of sessions in the audit log.
func (p *protected) audited() int {
	text, err := os.ReadFile(p.audit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Fatal(err)
	}
	return strings.Count(string(text), `"event":"open"`)
}

// words returns acts as the page writes them.
func words(acts []string) string {
	if len(acts) == 0 {
		return "nothing"
	}
	return strings.Join(acts, ", ")
}
