-- hottest auctions
SELECT window_start, window_end, auction, COUNT(*) FILTER (WHERE price > 1) AS n
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1:30' MINUTE TO SECOND, INTERVAL '1' SECOND(3)))
GROUP BY window_start, window_end, auction HAVING COUNT(*) > 1;
SELECT * FROM TUMBLE(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECONDS) /* end */;
