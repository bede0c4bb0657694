package ui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/view"
)

// See returns the state of a cluster.
type See func(ctx context.Context, q *view.Query) (*view.Cluster, error)

// Graph returns a page of a session's graph.
type Graph func(ctx context.Context, q *view.GraphQuery) (*view.Graph, error)

// Trace records what runs on the cluster.
type Trace func(ctx context.Context, q *view.TraceQuery) (*view.Trace, error)

// Option adds to what the pages show and do.
type Option func(*server)

// WithGraph makes the pages show the placed graphs of sessions.
func WithGraph(graph Graph) Option { return func(s *server) { s.graph = graph } }

// WithTrace makes the pages record steps.
func WithTrace(trace Trace) Option { return func(s *server) { s.trace = trace } }

// Acts performs what a page asks for, on behalf of the caller of the request in a context. Its methods are safe for concurrent use.
type Acts interface {
	// MayAct reports which acts the caller may ask for at all.
	MayAct(ctx context.Context) (cancel, reset, drain bool)
	// CancelStep cancels a step, and returns the name of its session and the task that is its master.
	CancelStep(ctx context.Context, step uint64) (session, master string, err error)
	// Reset empties containers on all tasks: the default ones if no names are given.
	Reset(ctx context.Context, containers []string) error
	// Drain makes a task end. Its running steps may continue for the time within, or for the task's own default if that is 0.
	Drain(ctx context.Context, task string, within time.Duration) error
}

// WithActs makes the pages act.
func WithActs(acts Acts) Option { return func(s *server) { s.acts = acts } }

// Handler serves the pages at / and their requests below /ui/api/. see and the options' functions must be safe for concurrent use.
func Handler(see See, opts ...Option) http.Handler {
	s := &server{see: see, looks: looks{byQuery: map[string]*sharedLook{}}}
	for _, o := range opts {
		o(s)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ui/api/about", s.serveAbout)
	mux.HandleFunc("GET /ui/api/see", s.serveSee)
	mux.HandleFunc("GET /ui/api/why", s.serveWhy)
	if s.graph != nil {
		mux.HandleFunc("GET /ui/api/graph", s.serveGraph)
	}
	if s.trace != nil {
		mux.HandleFunc("GET /ui/api/timeline", s.serveTimeline)
	}
	if s.acts != nil {
		mux.HandleFunc("POST /ui/api/cancel", s.serveCancel)
		mux.HandleFunc("POST /ui/api/reset", s.serveReset)
		mux.HandleFunc("POST /ui/api/drain", s.serveDrain)
	}
	mux.HandleFunc("/", serveAsset)
	return protect(http.NewCrossOriginProtection().Handler(mux))
}

// policy allows a page to run only embedded scripts, to connect only to its own server, and not to be embedded in another page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// protect sets the headers of all answers.
func protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

//go:embed assets
var embedded embed.FS

// asset is a file of the pages.
type asset struct {
	content []byte
	kind    string
	tag     string // an ETag
}

var assets = readAssets()

// kinds are the content types of assets. The machine's own tables may differ.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// readAssets returns the embedded files by the paths at which they are served.
func readAssets() map[string]asset {
	all := map[string]asset{}
	err := fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		a := asset{content, kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`}
		at := "/ui/" + strings.TrimPrefix(name, "assets/")
		if name == "assets/index.html" {
			at = "/"
		}
		all[at] = a
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the binary
	}
	return all
}

// serveAsset serves the embedded file of a path, and no other.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := assets[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the pages are only read", http.StatusMethodNotAllowed)
		return
	}
	h.Set("Content-Type", a.kind)
	h.Set("ETag", a.tag)
	h.Set("Cache-Control", "no-cache") // the server's next version has other files at the same paths
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
}
