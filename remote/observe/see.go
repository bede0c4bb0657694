package observe

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

// see answers a view.Query with a view.Cluster.
func (h *handler) see(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r.URL.Query())
	if err != nil {
		http.Error(w, status.From(err).Message, http.StatusBadRequest)
		return
	}
	seen, err := h.config.Tasks.See(r.Context(), q)
	if err != nil {
		http.Error(w, status.From(err).Message, http.StatusServiceUnavailable)
		return
	}
	text, err := json.Marshal(seen)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// An error here is the caller's end.
	_, _ = w.Write(append(text, '\n'))
}

// sections are those of a view.Query.
var sections = []string{"sessions", "steps", "resources", "devices", "links", "actors", "events"}

// queryOf reads a view.Query from parameters with its fields' names. Sections may be several, divided by commas.
func queryOf(all url.Values) (*view.Query, error) {
	q := &view.Query{}
	for name, values := range all {
		text := values[len(values)-1]
		var err error
		switch name {
		case "sections":
			for _, v := range values {
				q.Sections = append(q.Sections, strings.Split(v, ",")...)
			}
			for _, s := range q.Sections {
				if !slices.Contains(sections, s) {
					return nil, status.InvalidArgumentf("%s is no section: %s are", quoted(s), strings.Join(sections, ", "))
				}
			}
		case "cluster":
			q.Cluster, err = truth(text)
		case "detail":
			q.Detail, err = truth(text)
		case "step":
			q.Step, err = strconv.ParseUint(text, 10, 64)
		case "limit":
			q.Limit, err = strconv.ParseInt(text, 10, 64)
		case "events_after":
			q.EventsAfter, err = strconv.ParseUint(text, 10, 64)
		default:
			return nil, status.InvalidArgumentf("%s is no parameter: sections, cluster, detail, step, limit and events_after are", quoted(name))
		}
		if err != nil {
			return nil, status.InvalidArgumentf("the parameter %s cannot be %s", name, quoted(text))
		}
	}
	return q, nil
}

// truth is a truth value, which is true where the name alone is given.
func truth(text string) (bool, error) {
	if text == "" {
		return true, nil
	}
	return strconv.ParseBool(text)
}

// quoted is what a caller sent, short enough for a message.
func quoted(text string) string { return strconv.QuoteToASCII(view.Line(text)) }
