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
	// An error here means that the caller is gone.
	_, _ = w.Write(append(text, '\n'))
}

// sections are the sections of a view.Query.
var sections = []string{"sessions", "steps", "resources", "devices", "links", "actors", "events"}

// queryOf parses a view.Query from parameters with its fields' names. Sections may be several, separated by commas.
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
		case "tasks":
			for _, v := range values {
				q.Tasks = append(q.Tasks, strings.Split(v, ",")...)
			}
		case "events_after_of":
			q.EventsAfterOf, err = eventsAfter(values)
		case "step":
			q.Step, err = strconv.ParseUint(text, 10, 64)
		case "limit":
			q.Limit, err = strconv.ParseInt(text, 10, 64)
		case "events_after":
			q.EventsAfter, err = strconv.ParseUint(text, 10, 64)
		default:
			return nil, status.InvalidArgumentf("%s is no parameter: sections, cluster, tasks, detail, step, limit, events_after and events_after_of are", quoted(name))
		}
		if err != nil {
			return nil, status.InvalidArgumentf("the parameter %s cannot be %s", name, quoted(text))
		}
	}
	return q, nil
}

// eventsAfter parses TASK=NUMBER for each task.
func eventsAfter(values []string) (map[string]uint64, error) {
	all := map[string]uint64{}
	for _, v := range values {
		task, number, _ := strings.Cut(v, "=")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, err
		}
		all[task] = n
	}
	return all, nil
}

// truth parses a boolean, which is true if only the name is given.
func truth(text string) (bool, error) {
	if text == "" {
		return true, nil
	}
	return strconv.ParseBool(text)
}

// quoted returns what a caller sent, shortened for a message.
func quoted(text string) string { return strconv.QuoteToASCII(view.Line(text)) }
