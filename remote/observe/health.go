package observe

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
)

// health answers while the process does.
func (h *handler) health(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") }

// ready answers 200 while the process's tasks serve, or with ?cluster while all tasks of the cluster are up. It names the others to callers
// that may list tasks.
func (h *handler) ready(w http.ResponseWriter, r *http.Request) {
	missing, ok := h.config.Tasks.unready()
	if !ok {
		answer(w, http.StatusServiceUnavailable, "not ready: no task serves")
		return
	}
	of := "tasks of this process serve"
	if len(missing) == 0 && r.URL.Query().Has("cluster") {
		seen, err := h.config.Tasks.See(r.Context(), &view.Query{Sections: []string{"tasks"}})
		if err != nil {
			answer(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		for _, t := range seen.Tasks {
			if t.State != "up" {
				missing = append(missing, t.Task+" is "+t.State+because(t.Reason))
			}
		}
		of = "tasks of the cluster are up"
	}
	switch {
	case len(missing) == 0:
		answer(w, http.StatusOK, "ok")
	case !h.mayKnow(r):
		answer(w, http.StatusServiceUnavailable, fmt.Sprintf("not ready: not all %s (%d missing)", of, len(missing)))
	default:
		answer(w, http.StatusServiceUnavailable, fmt.Sprintf("not ready: not all %s\n%s", of, strings.Join(missing, "\n")))
	}
}

// mayKnow reports whether the caller of a probe may know tasks by name. Most callers have no credentials, which is not recorded as a
// refusal.
func (h *handler) mayKnow(r *http.Request) bool {
	if h.config.open() {
		return h.named(r.Host) // and not for a page whose name resolves to this machine
	}
	shows := r.Header.Get("Authorization") != "" || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	if !shows {
		return false
	}
	_, err := h.may(r, access.ListState)
	return err == nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + view.Line(reason)
}

// answer writes a line of text.
func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}
