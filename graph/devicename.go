package graph

import "strings"

// validDevice reports whether s is a full or partial device name: any number of /job:J, /replica:R, /task:T, /device:TYPE:I and the old
// forms /cpu:I and /gpu:I, with * for an unspecified part. The empty string is legal and names no device.
func validDevice(s string) bool {
	if s == "/" {
		return true
	}
	for s != "" {
		var ok bool
		switch {
		case take(&s, "/job:"):
			ok = take(&s, "*") || takeWord(&s, "/")
		case take(&s, "/replica:"), take(&s, "/task:"), take(&s, "/cpu:"), take(&s, "/CPU:"), take(&s, "/gpu:"), take(&s, "/GPU:"):
			ok = take(&s, "*") || takeNumber(&s)
		case take(&s, "/device:"):
			ok = (take(&s, "*") || takeWord(&s, "/:")) && (!take(&s, ":") || take(&s, "*") || takeNumber(&s))
		}
		if !ok {
			return false
		}
	}
	return true
}

func take(s *string, prefix string) (ok bool) {
	*s, ok = strings.CutPrefix(*s, prefix)
	return ok
}

// takeWord consumes a word up to one of ends: a letter followed by letters, digits or underscores.
func takeWord(s *string, ends string) bool {
	n := strings.IndexAny(*s, ends)
	if n < 0 {
		n = len(*s)
	}
	for i, c := range []byte((*s)[:n]) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	*s = (*s)[n:]
	return n > 0
}

// takeNumber consumes the digits of a number below 2^31.
func takeNumber(s *string) bool {
	n, v := 0, 0
	for n < len(*s) && (*s)[n] >= '0' && (*s)[n] <= '9' {
		v = v*10 + int((*s)[n]-'0')
		if v > 1<<31-1 {
			return false
		}
		n++
	}
	*s = (*s)[n:]
	return n > 0
}
