package rights

// Match reports whether a text matches a pattern, in which * stands for any characters, including none, and ? for one. Its time is at most
// proportional to the product of their lengths.
func Match(pattern, text string) bool {
	p, t := 0, 0
	star, mark := -1, 0 // the last star, and how much of text it has consumed
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
