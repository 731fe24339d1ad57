# Rules for everything that people read: sources, scripts, data, pages.
/\/(work|home|root|Users)\/[a-z]/ && !/\/(home|root|Users)\/(you|USER)/ {
  printf "%s:%d: a path of one machine; write it relative to the checkout\n", FILENAME, FNR
}
