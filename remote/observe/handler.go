package observe

import (
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/logs"
)

// maxLooks, maxProfiles and maxActs bound the concurrent requests that read tasks, that profile the process, and that act. Others are told
// to retry.
const (
	maxLooks    = 8
	maxProfiles = 4
	maxActs     = 4
)

// handler answers the requests.
type handler struct {
	config Config
	hosts  map[string]bool
}

// Handler serves the paths of the package to the callers that c admits. It does not listen.
func Handler(c Config) http.Handler {
	c.Log = logs.Limited(c.Log)
	h := &handler{config: c, hosts: map[string]bool{"localhost": true}}
	for _, name := range c.Hosts {
		h.hosts[hostName(name)] = true
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", h.health)
	mux.HandleFunc("/readyz", h.ready)
	mux.Handle("/metrics", h.guarded(access.ListState, h.metrics()))
	mux.Handle("/api/see", h.guarded(access.ListState, bounded(make(chan struct{}, maxLooks), http.HandlerFunc(h.see))))
	mux.Handle("/api/", h.guarded(access.ListState, http.NotFoundHandler()))
	if c.Pprof {
		profiles := make(chan struct{}, maxProfiles)
		for path, f := range map[string]http.HandlerFunc{"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
			mux.Handle("/debug/pprof/"+path, h.guarded(access.ProfileServer, bounded(profiles, f)))
		}
	}
	if c.UI != nil {
		pages := h.called(c.UI)
		mux.Handle("/", h.guarded(access.ListState, pages))
		room := make(chan struct{}, maxActs)
		for path, action := range acts {
			mux.Handle("POST "+path, h.acting(action, bounded(room, pages)))
		}
	} else {
		mux.Handle("/{$}", h.guarded(access.ListState, http.HandlerFunc(h.index)))
	}
	return h.protected(mux)
}

// bounded refuses requests for which there is no room.
func bounded(room chan struct{}, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d requests are being answered, which is the limit", cap(room)), http.StatusServiceUnavailable)
		}
	})
}

// index lists the paths.
func (h *handler) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "This is the HTTP endpoint of a Troupe task.\n\n/metrics\n/healthz\n/readyz\n/readyz?cluster\n/api/see\n/api/see?cluster=true\n")
	if h.config.Pprof {
		fmt.Fprint(w, "/debug/pprof/\n")
	}
}
